"""ServiceAccounts under an add-on's name that were not made for it: their tokens are issued to no agent."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet
from tests.security.compromised_agent import taken_over

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import ROLE_BINDINGS, SERVICE_ACCOUNTS
from watchword.kube.errors import Forbidden
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_service_account
from watchword.testing.eventually import eventually, is_gone

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY


async def test_agent_gets_no_tokens_of_an_account_that_was_there_before_the_addon(addons: AddonFleet) -> None:
    cluster = await addons.cluster()
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")
    await addons.client.create(SERVICE_ACCOUNTS, a_service_account(account.name, namespace=cluster))

    await addons.says(await addons.enable("reporter", cluster), READY, "False", "NameConflict")

    agent = await taken_over(addons.members, cluster)
    with pytest.raises(Forbidden):
        await request_token(agent, account, expiration_seconds=600)


async def test_agent_gets_no_tokens_of_an_account_that_took_the_place_of_the_addons(addons: AddonFleet) -> None:
    cluster = await addons.cluster()
    key = await addons.enable("reporter", cluster)
    await addons.says(key, READY)
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")
    await addons.members.stop(addons.hub)
    await addons.client.delete(SERVICE_ACCOUNTS, account)
    await addons.client.create(SERVICE_ACCOUNTS, a_service_account(account.name, namespace=cluster))

    addons.start_hub()

    await addons.says(key, READY, "False", "NameConflict")
    await eventually(addons.client, ROLE_BINDINGS, ObjectKey(cluster, "reporter-token-role"), is_gone)
    with pytest.raises(Forbidden):
        await request_token(await taken_over(addons.members, cluster), account, expiration_seconds=600)
