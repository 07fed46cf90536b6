"""An account in the namespace of a cluster: its ServiceAccount there, its token here, and what keeps both right."""

from __future__ import annotations

import pytest
from tests.accounts.fleet import PRESENT, REPORTED, AccountsFleet, says

from watchword.accounts.hub.account_guard import server_of
from watchword.api.accounts import ADDON_NAME, AccountSecret, is_owned_by
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    OCM_MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Invalid
from watchword.pki.jwt import read_unverified_claims
from watchword.testing.builders import a_secret, a_service_account
from watchword.testing.eventually import eventually, is_gone

KINDS = (MANAGED_SERVICE_ACCOUNTS, OCM_MANAGED_SERVICE_ACCOUNTS)


@pytest.mark.parametrize("kind", KINDS, ids=["proxy", "authentication"])
async def test_token_of_account_is_reported_and_honoured_by_its_cluster(fleet: AccountsFleet, kind: Resource) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", kind=kind, rotation={"validity": "1h"})

    await fleet.until(key, kind=kind)
    secret = await fleet.secret(key)
    found = await fleet.client.get(kind, key)
    me = await who_am_i(fleet.as_token(secret.token.reveal()))
    assert me.username == f"system:serviceaccount:{member.namespace}:robot"
    assert secret.ca == member.ca
    assert secret.server == fleet.server
    assert is_owned_by(secret.object, [found])
    assert found["status"]["tokenSecretRef"]["name"] == "robot"
    assert found["status"]["expirationTimestamp"] == secret.annotations[Annotation.TOKEN_EXPIRY]


async def test_token_has_the_audiences_that_were_asked_for(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", audiences=["foo", "bar"])

    await fleet.until(key)
    claims = read_unverified_claims((await fleet.secret(key)).token.reveal())
    assert sorted(claims["aud"]) == ["bar", "foo"]


@pytest.mark.parametrize(
    ("validity", "refusal"),
    [
        pytest.param("5m", "shortest life", id="below the minimum"),
        pytest.param("0s", "shortest life", id="zero"),
        pytest.param("-1h", "validity", id="negative"),
        pytest.param("NaN", "validity", id="not a number"),
        pytest.param("2000000h", "longest life", id="above the maximum"),
    ],
)
async def test_validity_that_no_server_grants_is_refused(fleet: AccountsFleet, validity: str, refusal: str) -> None:
    namespace = await fleet.plane.namespace()
    with pytest.raises(Invalid, match=refusal):
        await fleet.declare(namespace, "robot", rotation={"validity": validity})


async def test_audiences_beyond_the_limits_are_refused(fleet: AccountsFleet) -> None:
    namespace = await fleet.plane.namespace()
    for audiences in (["x" * 254], [""], [f"a{number}" for number in range(17)]):
        with pytest.raises(Invalid, match="audiences"):
            await fleet.declare(namespace, "robot", audiences=audiences)


async def test_unreadable_validity_in_the_ocm_group_is_reported(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    kind = OCM_MANAGED_SERVICE_ACCOUNTS
    key = await fleet.declare(member.name, "robot", kind=kind, rotation={"validity": "5m"})

    said = await fleet.until(key, REPORTED, "False", "InvalidAccount", kind=kind)
    assert "10m" in said.message


async def test_foreign_service_account_is_never_taken_over(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    local = fleet.local(member, "powerful")
    before = await fleet.client.create(SERVICE_ACCOUNTS, a_service_account("powerful", namespace=member.namespace))

    key = await fleet.declare(member.name, "powerful")
    said = await fleet.until(key, PRESENT, "False", "NameConflict")
    assert "powerful" in said.message
    after = await fleet.client.get(SERVICE_ACCOUNTS, local)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert await fleet.client.find(SECRETS, key) is None

    await fleet.client.delete(MANAGED_SERVICE_ACCOUNTS, key)
    await eventually(fleet.client, MANAGED_SERVICE_ACCOUNTS, key, lambda obj: obj is None)
    assert await fleet.client.find(SERVICE_ACCOUNTS, local) is not None


async def test_service_account_of_the_agent_itself_cannot_be_named(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "managed-serviceaccount")
    said = await fleet.until(key, PRESENT, "False", "NameConflict")
    assert "agent itself" in said.message


async def test_foreign_secret_is_never_overwritten(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.client.create(SECRETS, a_secret("robot", namespace=member.name, data={"password": "x"}))
    key = await fleet.declare(member.name, "robot")

    await fleet.until(key, ConditionType.SECRET_CREATED, "False", "NameConflict")
    found = await fleet.client.get(SECRETS, key)
    assert set(found["data"]) == {"password"}


async def test_deleted_service_account_returns_with_a_new_token(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.client.delete(SERVICE_ACCOUNTS, fleet.local(member, "robot"))
    new = await fleet.secret(key, lambda secret: secret.token != old.token)
    assert (await who_am_i(fleet.as_token(new.token.reveal()))).username.endswith(":robot")


async def test_changed_service_account_is_put_right(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    local = fleet.local(member, "robot")
    uid = uid_of(await fleet.client.get(SERVICE_ACCOUNTS, local))

    changes = {"metadata": {"labels": {Label.MANAGED_ACCOUNT: None}}, "automountServiceAccountToken": True}
    await fleet.client.patch(SERVICE_ACCOUNTS, local, changes)

    def is_right(obj: Object | None) -> bool:
        assert obj is not None
        return (
            obj["metadata"].get("labels") == {Label.MANAGED_ACCOUNT: "true"} and not obj["automountServiceAccountToken"]
        )

    found = await eventually(fleet.client, SERVICE_ACCOUNTS, local, is_right)
    assert uid_of(found) == uid


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"rotation": {"validity": "2h"}}, id="validity"),
        pytest.param({"audiences": ["other"]}, id="audiences"),
    ],
)
async def test_changed_request_takes_effect_at_once(fleet: AccountsFleet, change: Object) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.client.patch(MANAGED_SERVICE_ACCOUNTS, key, {"spec": change})
    new = await fleet.secret(key, lambda secret: secret.token != old.token)
    assert new.annotations[Annotation.TOKEN_REQUEST] != old.annotations[Annotation.TOKEN_REQUEST]


async def test_changed_endpoint_of_the_cluster_takes_effect_at_once(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)

    configs = [{"url": "https://edge.example:6443"}]
    patch = {"spec": {"managedClusterClientConfigs": configs}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(member.name), patch)
    await fleet.secret(key, lambda secret: secret.server == "https://edge.example:6443")


async def test_endpoint_that_the_cluster_no_longer_names_is_replaced_by_that_of_the_agent(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    first = (await fleet.secret(key)).server
    cluster = ObjectKey.cluster(member.name)
    named: Object = {"spec": {"managedClusterClientConfigs": [{"url": "https://edge.example:6443"}]}}
    await fleet.client.patch(MANAGED_CLUSTERS, cluster, named)
    await fleet.secret(key, lambda secret: secret.server == "https://edge.example:6443")

    await fleet.client.patch(MANAGED_CLUSTERS, cluster, {"spec": {"managedClusterClientConfigs": None}})
    await fleet.secret(key, lambda secret: secret.server == first)


async def test_address_that_a_secret_has_lost_is_added_by_the_agent(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    first = (await fleet.secret(key)).server

    await fleet.client.patch(SECRETS, key, {"metadata": {"annotations": {Annotation.TOKEN_SERVER: None}}})

    await fleet.secret(key, lambda secret: secret.server == first)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://edge.example", id="not encrypted"),
        pytest.param("https://edge.example/\nserver: x", id="another line"),
        pytest.param("https://user:word@edge.example", id="password"),
        pytest.param("https://", id="no host"),
        pytest.param("https://edge.example/" + "a" * 3000, id="very long"),
    ],
)
def test_text_that_is_no_address_is_taken_from_no_cluster(url: str) -> None:
    secret = a_secret("robot", namespace="edge", annotations={Annotation.TOKEN_SERVER: url})

    assert server_of({"spec": {"managedClusterClientConfigs": [{"url": url}]}}) == ""
    assert AccountSecret.read(secret).server == ""


async def test_dead_token_is_removed_when_the_add_on_is_disabled(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    await fleet.stop_agent(member)

    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, ObjectKey(member.name, ADDON_NAME))

    await fleet.until(key, ConditionType.TOKEN_REPORTED, "False", "AddonNotEnabled")
    await eventually(fleet.client, SECRETS, key, is_gone)


def spoilt(secret: AccountSecret) -> dict[str, object]:
    return {"data": {"token": "bm90IGEgdG9rZW4="}, "metadata": {"uid": uid_of(secret.object)}}


async def test_changed_token_in_the_secret_is_replaced(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.client.patch(SECRETS, key, spoilt(old))
    new = await fleet.secret(key, lambda secret: secret.is_intact and secret.token != old.token)
    assert (await who_am_i(fleet.as_token(new.token.reveal()))).username.endswith(":robot")


async def test_deleted_secret_returns(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.client.delete(SECRETS, key)
    await fleet.secret(key, lambda secret: uid_of(secret.object) != uid_of(old.object))


async def test_agent_that_starts_again_keeps_a_token_that_is_good(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.stop_agent(member)
    await fleet.start_agent(member)
    other = await fleet.declare(member.name, "later")
    await fleet.until(other)
    assert (await fleet.secret(key)).token == old.token


async def test_both_groups_declare_one_account_and_the_proxy_group_decides(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    ocm = OCM_MANAGED_SERVICE_ACCOUNTS
    key = await fleet.declare(member.name, "robot", kind=ocm, rotation={"validity": "100h"})
    await fleet.until(key, kind=ocm)
    await fleet.declare(member.name, "robot", rotation={"validity": "1h"})

    await fleet.until(key)
    said = await fleet.until(key, ConditionType.SUPERSEDED, kind=ocm)
    assert MANAGED_SERVICE_ACCOUNTS.group in said.message
    secret = await fleet.secret(key, lambda secret: secret.annotations[Annotation.TOKEN_REQUEST].startswith("1h"))

    def is_same(obj: Object | None) -> bool:
        assert obj is not None
        return bool(obj["status"]["expirationTimestamp"] == secret.annotations[Annotation.TOKEN_EXPIRY])

    await eventually(fleet.client, ocm, key, is_same)
    await fleet.client.delete(MANAGED_SERVICE_ACCOUNTS, key)
    await fleet.secret(key, lambda secret: secret.annotations[Annotation.TOKEN_REQUEST].startswith("100h"))
    await eventually(fleet.client, ocm, key, lambda obj: not says(ConditionType.SUPERSEDED, "True")(obj))


async def test_account_ends_after_its_time_to_live(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", ttlSecondsAfterCreation=5)
    await fleet.until(key)
    await eventually(fleet.client, MANAGED_SERVICE_ACCOUNTS, key, lambda obj: obj is None)
    assert await fleet.client.find(SERVICE_ACCOUNTS, fleet.local(member, "robot")) is None


async def test_account_of_a_cluster_without_the_add_on_says_what_to_do(fleet: AccountsFleet) -> None:
    member = await fleet.cluster(addon=False)
    key = await fleet.declare(member.name, "robot")
    said = await fleet.until(key, PRESENT, "False", "AddonNotEnabled")
    assert f"watchword addon enable managed-serviceaccount -c {member.name}" in said.message
