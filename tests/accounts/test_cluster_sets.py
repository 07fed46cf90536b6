"""An account in a cluster-set namespace: on every cluster of the set, as clusters and bindings come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.accounts.fleet import PRESENT, AccountsFleet, Member

from watchword.accounts.hub.set_account import ReplicaState, decide_presence
from watchword.api.accounts import copy_name, split_copy_name
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    OCM_MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.access_reviews import who_am_i
from watchword.testing.eventually import eventually, is_gone

MSA = MANAGED_SERVICE_ACCOUNTS


def copy_of(namespace: str, member: Member, name: str = "robot") -> ObjectKey:
    return ObjectKey(namespace, copy_name(member.name, name))


def counts(total: int, present: int) -> Callable[[Object | None], bool]:
    def test(obj: Object | None) -> bool:
        said = ((obj or {}).get("status") or {}).get("clusters") or {}
        return (said.get("total"), said.get("present")) == (total, present)

    return test


async def a_set_with(fleet: AccountsFleet, clusters: int) -> tuple[str, str, list[Member]]:
    name = fleet.plane.unique("fleet")
    namespace = await fleet.bound_namespace(name)
    return name, namespace, [await fleet.cluster(labels={"set": name}) for _ in range(clusters)]


async def test_account_is_on_every_cluster_of_the_set(fleet: AccountsFleet) -> None:
    _, namespace, members = await a_set_with(fleet, 2)
    key = await fleet.declare(namespace, "robot", audiences=[])

    await fleet.until(key, PRESENT, "True", "AllPresent")
    await eventually(fleet.client, MSA, key, counts(2, 2))
    for member in members:
        secret = await fleet.secret(copy_of(namespace, member))
        me = await who_am_i(fleet.as_token(secret.token.reveal()))
        assert me.username == f"system:serviceaccount:{member.namespace}:robot"
        assert secret.object["metadata"]["labels"][Label.CLUSTER_NAME] == member.name


async def test_account_follows_clusters_that_join_and_leave_the_set(fleet: AccountsFleet) -> None:
    name, namespace, (first,) = await a_set_with(fleet, 1)
    key = await fleet.declare(namespace, "robot")
    await fleet.secret(copy_of(namespace, first))

    second = await fleet.cluster(labels={"set": name})
    await fleet.secret(copy_of(namespace, second))
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey("", first.name), {"metadata": {"labels": {"set": "other"}}})
    await eventually(fleet.client, SECRETS, copy_of(namespace, first), is_gone)
    await eventually(fleet.client, SERVICE_ACCOUNTS, fleet.local(first, "robot"), is_gone)
    await eventually(fleet.client, MSA, key, counts(1, 1))


async def test_account_follows_the_binding_of_its_namespace(fleet: AccountsFleet) -> None:
    name, namespace, (member,) = await a_set_with(fleet, 1)
    key = await fleet.declare(namespace, "robot")
    await fleet.secret(copy_of(namespace, member))

    await fleet.client.delete(MANAGED_CLUSTER_SET_BINDINGS, ObjectKey(namespace, name))
    said = await fleet.until(key, PRESENT, "False", "NoClusterNamespace")
    assert "ManagedClusterSetBinding" in said.message
    await eventually(fleet.client, SERVICE_ACCOUNTS, fleet.local(member, "robot"), is_gone)
    await eventually(fleet.client, SECRETS, copy_of(namespace, member), is_gone)

    await fleet.bind(namespace, name)
    await fleet.secret(copy_of(namespace, member))


async def test_account_in_a_namespace_of_neither_kind_says_so(fleet: AccountsFleet) -> None:
    key = await fleet.declare(await fleet.plane.namespace("team"), "robot")
    await fleet.until(key, PRESENT, "False", "NoClusterNamespace")


async def test_status_names_clusters_that_lack_the_account_and_why(fleet: AccountsFleet) -> None:
    name, namespace, (taken,) = await a_set_with(fleet, 1)
    bare = await fleet.cluster(labels={"set": name}, addon=False)
    await fleet.declare(taken.name, "robot", kind=OCM_MANAGED_SERVICE_ACCOUNTS)
    await fleet.until(ObjectKey(taken.name, "robot"), kind=OCM_MANAGED_SERVICE_ACCOUNTS)

    key = await fleet.declare(namespace, "robot")
    said = await fleet.until(key, PRESENT, "False", "NameConflict")
    assert f"{bare.name} (AddonNotEnabled)" in said.message
    assert f"{taken.name} (NameConflict" in said.message

    await fleet.client.delete(OCM_MANAGED_SERVICE_ACCOUNTS, ObjectKey(taken.name, "robot"))
    await fleet.secret(copy_of(namespace, taken), within=90)
    await fleet.until(key, PRESENT, "False", "MissingOnClusters")


async def test_two_namespaces_cannot_share_an_account_of_one_name(fleet: AccountsFleet) -> None:
    name, namespace, (member,) = await a_set_with(fleet, 1)
    await fleet.declare(namespace, "robot")
    await fleet.secret(copy_of(namespace, member))

    other = await fleet.plane.namespace("other")
    await fleet.bind(other, name)
    key = await fleet.declare(other, "robot")
    await fleet.until(key, PRESENT, "False", "NameConflict")
    assert await fleet.client.find(SECRETS, copy_of(other, member)) is None


async def test_deleted_account_is_revoked_on_every_cluster(fleet: AccountsFleet) -> None:
    _, namespace, members = await a_set_with(fleet, 2)
    key = await fleet.declare(namespace, "robot")
    await fleet.until(key, PRESENT)

    await fleet.client.delete(MSA, key)
    await eventually(fleet.client, MSA, key, is_gone)
    for member in members:
        await eventually(fleet.client, SECRETS, copy_of(namespace, member), is_gone)
        assert await fleet.client.find(SERVICE_ACCOUNTS, fleet.local(member, "robot")) is None


async def test_deleted_account_names_the_cluster_that_cannot_be_reached(fleet: AccountsFleet) -> None:
    _, namespace, members = await a_set_with(fleet, 2)
    key = await fleet.declare(namespace, "robot")
    await fleet.until(key, PRESENT)
    await fleet.stop_agent(members[0])

    await fleet.client.delete(MSA, key)
    said = await fleet.until(key, ConditionType.REVOCATION_PENDING)
    assert members[0].name in said.message
    await fleet.start_agent(members[0])
    await eventually(fleet.client, MSA, key, is_gone)


async def test_copy_of_a_secret_follows_and_returns(fleet: AccountsFleet) -> None:
    _, namespace, (member,) = await a_set_with(fleet, 1)
    key = await fleet.declare(namespace, "robot")
    old = await fleet.secret(copy_of(namespace, member))

    await fleet.client.patch(MSA, key, {"spec": {"rotation": {"validity": "2h"}}})
    new = await fleet.secret(copy_of(namespace, member), lambda secret: secret.token != old.token)
    await fleet.client.delete(SECRETS, copy_of(namespace, member))
    again = await fleet.secret(copy_of(namespace, member))
    assert again.token == new.token


@pytest.mark.parametrize(("cluster", "account"), [("a-b", "c"), ("a", "b-c"), ("a", "b.c"), ("a-b", "c.d")])
def test_name_of_a_copy_tells_cluster_and_account(cluster: str, account: str) -> None:
    assert split_copy_name(copy_name(cluster, account)) == (cluster, account)


def test_message_names_a_few_clusters_and_counts_the_rest() -> None:
    states = [ReplicaState(f"c{number}", "waiting") for number in range(12)]
    said = decide_presence(states, bound=True, namespace="team")
    assert said.message.endswith("and 2 more")


def test_set_without_clusters_lacks_nothing() -> None:
    assert decide_presence([], bound=True, namespace="team").reason == "NoClusters"


async def test_copy_that_lost_its_owner_is_taken_back(fleet: AccountsFleet) -> None:
    _, namespace, (member,) = await a_set_with(fleet, 1)
    await fleet.declare(namespace, "robot")
    copy = (await fleet.secret(copy_of(namespace, member))).key

    await fleet.client.patch(SECRETS, copy, {"metadata": {"ownerReferences": None}})

    await eventually(
        fleet.client, SECRETS, copy, lambda obj: bool((obj or {"metadata": {}})["metadata"].get("ownerReferences"))
    )
