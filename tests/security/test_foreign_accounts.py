"""ServiceAccounts under an add-on's name that were not made for it: their tokens are issued to no agent."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.server_decision import until_refused
from tests.security.compromised_agent import taken_over

from watchword.addons.definition import AddonDefinition, Grant
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import ROLE_BINDINGS, SERVICE_ACCOUNTS
from watchword.kube.errors import Forbidden
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_service_account
from watchword.testing.eventually import eventually, is_gone

READY, APPLIED = ConditionType.TOKEN_INFRASTRUCTURE_READY, ConditionType.REGISTRATION_APPLIED


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
    agent = await taken_over(addons.members, cluster)
    await until_refused(lambda: request_token(agent, account, expiration_seconds=600))


GRANT = Grant("reads", rules=({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},))
BINDING = "open-cluster-management:reporter:reads:agent"


def message_of(addon: Object | None) -> str:
    said = find_condition(addon or {}, APPLIED)
    return said.message if said is not None and said.reason == "PermissionConfigPending" else ""


async def test_no_grant_is_bound_to_an_account_that_was_there_before_the_addon(addons: AddonFleet) -> None:
    cluster = await addons.cluster()
    await addons.client.create(SERVICE_ACCOUNTS, a_service_account(f"{cluster}-reporter-agent", namespace=cluster))
    addons.start_addon(AddonDefinition("reporter", grants=(GRANT,), install_namespace=addons.namespace))

    key = await addons.enable("reporter", cluster)

    await addons.says(key, READY, "False", "NameConflict")
    await addons.until(key, lambda obj: "TokenInfrastructureReady" in message_of(obj))
    assert await addons.client.find(ROLE_BINDINGS, ObjectKey(cluster, BINDING)) is None


async def test_grant_is_taken_back_when_another_account_takes_the_place_of_the_addons(addons: AddonFleet) -> None:
    cluster = await addons.cluster()
    addons.start_addon(AddonDefinition("reporter", grants=(GRANT,), install_namespace=addons.namespace))
    key = await addons.enable("reporter", cluster)
    await addons.says(key, APPLIED)
    await addons.members.stop(addons.hub)  # the hub would make the account again
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")

    await addons.client.delete(SERVICE_ACCOUNTS, account)
    await addons.client.create(SERVICE_ACCOUNTS, a_service_account(account.name, namespace=cluster))

    await eventually(addons.client, ROLE_BINDINGS, ObjectKey(cluster, BINDING), is_gone)
    await addons.says(key, APPLIED, "False", "PermissionConfigPending")
