"""Recorded rights of accounts: clusters that join get them, accounts that are deleted lose them."""

from __future__ import annotations

import pytest
from tests.accounts.fleet import AccountsFleet

from watchword.accounts.grants import (
    GRANTS,
    AccountRight,
    account_of_work,
    accounts_of_record,
    find_rights,
    grant_work,
    work_key,
)
from watchword.admin.service_accounts import ServiceAccountAdmin
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.resources import CONFIG_MAPS, MANAGED_SERVICE_ACCOUNTS, MANIFEST_WORKS
from watchword.testing.eventually import eventually, is_gone

ROBOT = ObjectKey("team", "robot")
VIEW = AccountRight("view", ("shop",))


@pytest.mark.parametrize(
    ("name", "uid", "expected"),
    [
        pytest.param("robot", "u2", [], id="account that was deleted and made again"),
        pytest.param("other", "u1", [], id="another account"),
        pytest.param("robot", "u1", [VIEW], id="the account"),
    ],
)
def test_right_counts_for_the_account_that_it_was_recorded_for(
    name: str, uid: str, expected: list[AccountRight]
) -> None:
    record = CONFIG_MAPS.manifest(GRANTS, data=dict([VIEW.entry(ROBOT, "u1")]))
    assert find_rights(record, ObjectKey("team", name), {uid}) == expected
    assert accounts_of_record(record) == [ROBOT]


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"account":"team/robot","uid":"u1"}'])
def test_unreadable_record_grants_nothing(text: str) -> None:
    assert find_rights({"data": {"x": text}}, ROBOT, {"u1"}) == []


def test_work_names_its_account() -> None:
    assert account_of_work(grant_work(ROBOT, "edge", VIEW, "agents")) == [ROBOT]


async def test_cluster_that_joins_later_gets_the_grant_and_one_that_leaves_loses_it(fleet: AccountsFleet) -> None:
    name = fleet.plane.unique("fleet")
    namespace = await fleet.bound_namespace(name)
    first = await fleet.cluster(labels={"set": name})
    key = await fleet.declare(namespace, "robot")
    await fleet.until(key, "AllServiceAccountPresent")
    granted = await ServiceAccountAdmin(fleet.client).grant(key, VIEW)
    assert granted == [work_key(key, first.name, VIEW)]
    await eventually(fleet.client, MANIFEST_WORKS, granted[0])

    second = await fleet.cluster(labels={"set": name})
    await eventually(fleet.client, MANIFEST_WORKS, work_key(key, second.name, VIEW))
    await fleet.client.delete(MANAGED_SERVICE_ACCOUNTS, key)
    for member in (first, second):
        await eventually(fleet.client, MANIFEST_WORKS, work_key(key, member.name, VIEW), is_gone)


async def test_account_that_was_made_again_has_no_right_of_the_first_one(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    (work,) = await ServiceAccountAdmin(fleet.client).grant(key, VIEW)
    before = uid_of(await eventually(fleet.client, MANIFEST_WORKS, work))
    await fleet.client.delete(MANAGED_SERVICE_ACCOUNTS, key)
    await eventually(fleet.client, MANAGED_SERVICE_ACCOUNTS, key, is_gone)
    await eventually(fleet.client, MANIFEST_WORKS, work, is_gone)

    await fleet.declare(member.name, "robot")
    await fleet.until(key)
    found = await fleet.client.find(MANIFEST_WORKS, work)
    assert found is None or uid_of(found) == before
