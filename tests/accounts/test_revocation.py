"""Deleting an account revokes it: its Secret at once, its ServiceAccount and so its tokens on the cluster."""

from __future__ import annotations

import pytest
from tests.accounts.fleet import AccountsFleet
from tests.helpers.server_decision import until_refused

from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import Object, ObjectKey, finalizers_of, labels_of, uid_of
from watchword.api.names import Annotation, ConditionType, Finalizer, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Unauthorized
from watchword.testing.eventually import eventually, is_gone

MSA = MANAGED_SERVICE_ACCOUNTS


async def until_unauthorized(fleet: AccountsFleet, token: str) -> None:
    client = fleet.as_token(token)
    await until_refused(lambda: who_am_i(client), Unauthorized)


async def a_reported_account(fleet: AccountsFleet, cluster: str, name: str = "robot") -> tuple[ObjectKey, str]:
    key = await fleet.declare(cluster, name)
    await fleet.until(key)
    await eventually(fleet.client, MSA, key, lambda obj: Finalizer.ACCOUNT in finalizers_of(obj or {}))
    return key, (await fleet.secret(key)).token.reveal()


async def test_deleted_account_is_gone_everywhere_and_its_token_refused(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)

    await fleet.client.delete(MSA, key)
    await eventually(fleet.client, MSA, key, is_gone)
    await eventually(fleet.client, SECRETS, key, is_gone)
    assert await fleet.client.find(SERVICE_ACCOUNTS, fleet.local(member, "robot")) is None
    await until_unauthorized(fleet, token)


async def test_account_is_held_while_its_cluster_cannot_be_reached(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)
    await fleet.stop_agent(member)

    await fleet.client.delete(MSA, key)
    said = await fleet.until(key, ConditionType.REVOCATION_PENDING)
    assert member.name in said.message
    assert "--abandon" in said.message
    assert await fleet.client.find(SECRETS, key) is None
    await who_am_i(fleet.as_token(token))

    await fleet.start_agent(member)
    await eventually(fleet.client, MSA, key, is_gone)
    await until_unauthorized(fleet, token)


async def test_account_that_was_deleted_and_made_again_has_no_token_of_the_old_one(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)
    await fleet.stop_agent(member)
    before = uid_of(await fleet.client.get(SERVICE_ACCOUNTS, fleet.local(member, "robot")))
    await fleet.client.delete(MSA, key)
    await fleet.client.patch(MSA, key, {"metadata": {"finalizers": None}})
    await fleet.declare(member.name, "robot")

    await fleet.start_agent(member)
    await fleet.until(key)
    assert uid_of(await fleet.client.get(SERVICE_ACCOUNTS, fleet.local(member, "robot"))) != before
    await until_unauthorized(fleet, token)


async def test_service_account_without_its_label_is_removed_with_its_account(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key, _ = await a_reported_account(fleet, member.name)
    await fleet.stop_agent(member)
    local = fleet.local(member, "robot")
    await fleet.client.patch(SERVICE_ACCOUNTS, local, {"metadata": {"labels": {Label.MANAGED_ACCOUNT: None}}})
    await fleet.client.delete(MSA, key)

    await fleet.start_agent(member)
    await eventually(fleet.client, MSA, key, is_gone)
    await eventually(fleet.client, SERVICE_ACCOUNTS, local, is_gone)


UNMARKED: Object = {
    "metadata": {"labels": {Label.MANAGED_ACCOUNT: None}, "annotations": {Annotation.ACCOUNT_UID: None}}
}


async def test_service_account_that_lost_every_mark_gets_them_back(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await a_reported_account(fleet, member.name)
    local = fleet.local(member, "robot")

    await fleet.client.patch(SERVICE_ACCOUNTS, local, UNMARKED)

    await eventually(fleet.client, SERVICE_ACCOUNTS, local, lambda obj: Label.MANAGED_ACCOUNT in labels_of(obj or {}))


async def test_service_account_without_any_mark_is_removed_with_its_account(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)
    local = fleet.local(member, "robot")
    await fleet.stop_agent(member)
    await fleet.client.patch(SERVICE_ACCOUNTS, local, UNMARKED)
    await fleet.client.delete(MSA, key)

    await fleet.start_agent(member)
    await eventually(fleet.client, MSA, key, is_gone)
    assert await fleet.client.find(SERVICE_ACCOUNTS, local) is None
    await until_unauthorized(fleet, token)


async def test_revocation_is_not_confirmed_while_tokens_may_be_of_the_service_account_that_is_there(
    fleet: AccountsFleet,
) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)
    local = fleet.local(member, "robot")
    await fleet.stop_agent(member)
    unowned = {"metadata": {**UNMARKED["metadata"], "ownerReferences": None}}
    await fleet.client.patch(SERVICE_ACCOUNTS, local, unowned)
    await fleet.client.delete(MSA, key)
    await fleet.start_agent(member)

    await fleet.until(key, ConditionType.ALL_ACCOUNTS_PRESENT, "False", "NameConflict")
    await who_am_i(fleet.as_token(token))

    await fleet.client.delete(SERVICE_ACCOUNTS, local)
    await eventually(fleet.client, MSA, key, is_gone)
    await until_unauthorized(fleet, token)


async def test_account_that_was_removed_while_the_agent_was_away_is_revoked(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key, token = await a_reported_account(fleet, member.name)
    await fleet.stop_agent(member)
    await fleet.client.delete(MSA, key)
    await fleet.client.patch(MSA, key, {"metadata": {"finalizers": None}})

    await fleet.start_agent(member)
    await eventually(fleet.client, SERVICE_ACCOUNTS, fleet.local(member, "robot"), is_gone)
    await until_unauthorized(fleet, token)


async def test_removing_the_agent_from_a_cluster_revokes_its_accounts(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    _, token = await a_reported_account(fleet, member.name)
    await fleet.stop_agent(member)

    await fleet.client.delete(SERVICE_ACCOUNTS, fleet.local(member, ADDON_NAME))
    await eventually(fleet.client, SERVICE_ACCOUNTS, fleet.local(member, "robot"), is_gone)
    await until_unauthorized(fleet, token)


@pytest.mark.parametrize("gone", ["cluster", "addon"])
async def test_nothing_holds_an_account_whose_cluster_or_add_on_is_gone(fleet: AccountsFleet, gone: str) -> None:
    member = await fleet.cluster()
    key, _ = await a_reported_account(fleet, member.name)
    await fleet.stop_agent(member)
    await fleet.client.delete(MSA, key)
    if gone == "cluster":
        await fleet.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    else:
        await fleet.client.delete(MANAGED_CLUSTER_ADDONS, ObjectKey(member.name, ADDON_NAME))
    await eventually(fleet.client, MSA, key, is_gone)
