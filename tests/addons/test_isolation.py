"""What a hostile agent, add-on or tenant tries, and does not get."""

from __future__ import annotations

from typing import Any

import pytest
from tests.addons.fleet import KUBE_CLIENT, AddonFleet, registrations_of
from tests.helpers.events import is_told
from tests.helpers.leak_search import Canary

from watchword.addons.definition import AddonDefinition
from watchword.addons.rbac import status_writer
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import ConditionType
from watchword.api.resources import (
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, Unauthorized
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_config_map, a_secret, a_service_account
from watchword.testing.eventually import eventually

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY
APPLIED = ConditionType.REGISTRATION_APPLIED
PARTS = 6  # a hub slows down when an agent overwrites the same field more than five times a minute


def hostile_subjects(cluster: str) -> list[Object]:
    users = [
        "system:admin", "system:kube-controller-manager", "system:anonymous", "kubernetes-admin", "admin", cluster,
        f"system:open-cluster-management:{cluster}:x", "system:node:n1", "*", " ", "system:serviceaccount:",
        "system:serviceaccount:kube-system:default", f"system:serviceaccount:{cluster}:default",
        f"system:serviceaccount:{cluster}:other-agent", f"system:serviceaccount:{cluster}0:{cluster}-reporter-agent",
        f"system:serviceaccount:{cluster}:{cluster}-reporter-agent ", f"system:serviceaccount:{cluster}:x:r-agent",
        f"system:serviceaccount:{cluster}:{cluster}-reporter-agent:x", f"SYSTEM:serviceaccount:{cluster}:r-agent",
        f"system:open-cluster-management:cluster:{cluster}:addon:reporter:agent:reporter",
    ]  # fmt: skip
    own = f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"
    groups = [
        "system:masters", "system:serviceaccounts", f"system:serviceaccounts:{cluster}", "system:authenticated",
        "system:unauthenticated", "system:nodes", f"system:open-cluster-management:{cluster}", "*",
        "system:open-cluster-management:managed-clusters", "system:open-cluster-management:other",
    ]  # fmt: skip
    return [{"user": user} for user in users] + [{"user": own, "groups": [group]} for group in groups]


def bound_names(bindings: list[Object]) -> set[str]:
    return {subject["name"] for binding in bindings for subject in binding.get("subjects") or []}


@pytest.mark.parametrize("part", range(PARTS))
async def test_no_binding_ever_names_whom_an_agent_claims_to_be(addon_fleet: AddonFleet, part: int) -> None:
    cluster = await addon_fleet.cluster()
    addon_fleet.start_addon(
        AddonDefinition("reporter", grants=(status_writer("r"),), install_namespace=addon_fleet.namespace)
    )
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, APPLIED)
    before = bound_names((await addon_fleet.client.list(ROLE_BINDINGS, namespace=cluster)).items)
    await addon_fleet.stop_agent(cluster)
    own = [{**KUBE_CLIENT, "kubeClient": {"driver": "token", "subject": {"user": account_user(cluster)}}}]

    for subject in hostile_subjects(cluster)[part::PARTS]:
        await addon_fleet.register(key, {**KUBE_CLIENT, "kubeClient": {"driver": "token", "subject": subject}})
        await addon_fleet.until(key, lambda obj: registrations_of(obj) == own)
        assert bound_names((await addon_fleet.client.list(ROLE_BINDINGS, namespace=cluster)).items) == before
    await is_told(addon_fleet.client, key.name, "SubjectMismatch")


def account_user(cluster: str, addon: str = "reporter") -> str:
    return f"system:serviceaccount:{cluster}:{cluster}-{addon}-agent"


def agent_of(addon_fleet: AddonFleet, cluster: str) -> Client:
    return addon_fleet.plane.client(
        f"system:open-cluster-management:{cluster}:x", [f"system:open-cluster-management:{cluster}"]
    )


async def test_agent_can_ask_for_tokens_of_its_own_addons_accounts_alone(addon_fleet: AddonFleet) -> None:
    one, other = await addon_fleet.cluster(), await addon_fleet.cluster()
    keys = [await addon_fleet.enable(name, cluster) for cluster in (one, other) for name in ("reporter", "other")]
    for key in keys:
        await addon_fleet.says(key, READY)
    await addon_fleet.client.create(SERVICE_ACCOUNTS, a_service_account("builder", namespace=one))
    agent = agent_of(addon_fleet, one)

    for name in (f"{one}-reporter-agent", f"{one}-other-agent"):
        await request_token(agent, ObjectKey(one, name), expiration_seconds=600)
    attempts = [(one, "default"), (one, "builder"), (one, "reporter-agent"), (one, ""), (one, "*")]
    attempts += [(other, f"{other}-reporter-agent"), ("kube-system", "default"), ("default", f"{one}-reporter-agent")]
    for namespace, name in attempts:
        with pytest.raises(Exception, match=r"forbidden|not found|could not find"):
            await request_token(agent, ObjectKey(namespace, name), expiration_seconds=600)


@pytest.mark.parametrize("verb", ["get", "list", "watch", "update", "patch", "delete", "impersonate"])
async def test_agent_has_no_other_right_on_accounts(addon_fleet: AddonFleet, verb: str) -> None:
    cluster = await addon_fleet.cluster()
    await addon_fleet.says(await addon_fleet.enable("reporter", cluster), READY)
    who = UserIdentity(
        f"system:open-cluster-management:{cluster}:x", groups=(f"system:open-cluster-management:{cluster}",)
    )
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")

    assert not await may(addon_fleet.client, who, ResourceAccess(verb, SERVICE_ACCOUNTS, account))
    assert not await may(addon_fleet.client, who, ResourceAccess(verb, SECRETS, ObjectKey(cluster, "")))


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        pytest.param(SERVICE_ACCOUNTS, "{c}-reporter-agent", id="account"),
        pytest.param(ROLES, "reporter-token-role", id="role"),
        pytest.param(ROLE_BINDINGS, "reporter-token-role", id="binding"),
    ],
)
async def test_what_was_there_before_is_never_adopted(addon_fleet: AddonFleet, resource: Any, name: str) -> None:
    cluster = await addon_fleet.cluster()
    key = ObjectKey(cluster, name.replace("{c}", cluster))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    more: Object = {"roleRef": reference} if resource is ROLE_BINDINGS else {}
    planted = await addon_fleet.client.create(resource, resource.manifest(key, **more))

    addon = await addon_fleet.enable("reporter", cluster)
    said = await addon_fleet.says(addon, READY, "False", "NameConflict")

    assert str(key) in said.message
    assert await addon_fleet.client.get(resource, key) == planted
    await addon_fleet.client.delete(resource, key)
    await addon_fleet.refreshed(addon, within=90)


async def test_secret_of_another_owner_is_left_unchanged(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    name = "reporter-hub-kubeconfig"
    planted = await addon_fleet.client.create(
        SECRETS, a_secret(name, namespace=addon_fleet.namespace, data={"mine": "x"})
    )

    addon = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(addon, ConditionType.ADDON_TOKEN_REFRESHED, "False", "NameConflict")

    assert await addon_fleet.client.get(SECRETS, ObjectKey(addon_fleet.namespace, name)) == planted


async def test_two_addons_never_share_an_account(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    first = await addon_fleet.enable("x", cluster)
    await addon_fleet.says(first, READY)
    await addon_fleet.stop_agent(cluster)

    # Open Cluster Management's name for this add-on's account is ours for the other one's.
    user = f"system:serviceaccount:{cluster}:{cluster}-x-agent"
    second = await addon_fleet.enable(
        f"{cluster}-x", cluster, {**KUBE_CLIENT, "kubeClient": {"driver": "token", "subject": {"user": user}}}
    )

    await addon_fleet.says(second, READY, "False", "NameConflict")


async def test_two_addons_never_share_a_secret(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    signers = ("b-cc.io/d", "cc.io/d")
    rows = [
        {"type": "customSigner", "customSigner": {"signerName": name, "subject": {"user": "x"}}} for name in signers
    ]

    await addon_fleet.enable("a", cluster, rows[0])
    second = await addon_fleet.enable("a-b", cluster, rows[1])

    said = await addon_fleet.says(second, ConditionType.CERTIFICATE_ROTATED, "False", "NameConflict")
    assert "a-b-cc.io-d-client-cert" in said.message


async def test_denied_cluster_has_no_tokens_left(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    data = await addon_fleet.secret(key)

    await addon_fleet.members.accept(cluster, accepted=False)
    await addon_fleet.says(key, READY, "False", "ClusterNotAccepted")
    await addon_fleet.gone(SERVICE_ACCOUNTS, ObjectKey(cluster, f"{cluster}-reporter-agent"))
    with pytest.raises((Unauthorized, Forbidden)):
        await request_token(
            agent_of(addon_fleet, cluster), ObjectKey(cluster, f"{cluster}-reporter-agent"), expiration_seconds=600
        )

    await addon_fleet.members.accept(cluster)
    again = await addon_fleet.secret(
        key, lambda now: now["service-account-uid"] != data["service-account-uid"], within=120
    )
    assert (await who_am_i(addon_fleet.as_token(again["token"]))).username == account_user(cluster)


async def test_denied_agent_cannot_talk_the_hub_into_leaving_its_accounts(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, READY)
    await addon_fleet.stop_agent(cluster)

    lie = {"type": READY, "status": "False", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await addon_fleet.members.accept(cluster, accepted=False)
    await addon_fleet.register(key, {**KUBE_CLIENT, "kubeClient": {"driver": "csr"}}, conditions=[lie])

    await addon_fleet.gone(SERVICE_ACCOUNTS, ObjectKey(cluster, f"{cluster}-reporter-agent"))


async def test_addon_that_came_back_does_not_inherit_tokens(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, READY)
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")
    before = await addon_fleet.client.get(SERVICE_ACCOUNTS, account)
    await addon_fleet.members.stop(addon_fleet.hub)
    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)
    await addon_fleet.gone(MANAGED_CLUSTER_ADDONS, key)
    await addon_fleet.enable("reporter", cluster)

    addon_fleet.start_hub()

    await eventually(
        addon_fleet.client, SERVICE_ACCOUNTS, account, lambda obj: obj is not None and uid_of(obj) != uid_of(before)
    )
    await addon_fleet.says(key, READY)


async def test_flipping_between_drivers_costs_the_hub_little(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, READY)
    await addon_fleet.stop_agent(cluster)
    account = await addon_fleet.client.get(SERVICE_ACCOUNTS, ObjectKey(cluster, f"{cluster}-reporter-agent"))

    for _ in range(50):
        for driver in ("csr", "token"):
            subject = {"user": account_user(cluster)}
            await addon_fleet.register(key, {**KUBE_CLIENT, "kubeClient": {"driver": driver, "subject": subject}})

    said = await addon_fleet.says(key, READY)
    assert uid_of(account) in said.message
    assert await addon_fleet.client.get(SERVICE_ACCOUNTS, ObjectKey.of(account)) == account


async def test_addon_may_do_on_the_hub_what_its_rights_say_and_nothing_else(addon_fleet: AddonFleet) -> None:
    one, other = await addon_fleet.cluster(), await addon_fleet.cluster()
    addon_fleet.start_addon(
        AddonDefinition("reporter", grants=(status_writer("mine"),), install_namespace=addon_fleet.namespace)
    )
    for cluster in (one, other):
        await addon_fleet.says(await addon_fleet.enable("reporter", cluster), APPLIED)
    await addon_fleet.client.create(CONFIG_MAPS, a_config_map("theirs", namespace=one))
    hub = addon_fleet.as_token((await addon_fleet.secret(ObjectKey(one, "reporter")))["token"])

    await hub.create(CONFIG_MAPS, a_config_map("mine", namespace=one))
    await hub.patch(CONFIG_MAPS, ObjectKey(one, "mine"), {"data": {"state": "well"}})
    for place, name in ((one, "theirs"), (other, "mine"), ("kube-system", "mine")):
        with pytest.raises(Forbidden):
            await hub.patch(CONFIG_MAPS, ObjectKey(place, name), {"data": {"state": "ill"}})
    for kind in (SECRETS, SERVICE_ACCOUNTS, ROLES, MANAGED_CLUSTER_ADDONS, CONFIG_MAPS):
        with pytest.raises(Forbidden):
            await hub.list(kind, namespace=one)
    with pytest.raises(Forbidden):
        await request_token(hub, ObjectKey(one, f"{one}-reporter-agent"), expiration_seconds=600)


async def test_token_turns_up_nowhere_but_in_its_secret(addon_fleet: AddonFleet, canary: Canary) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())
    data = await addon_fleet.secret(key)
    canary.look_for("the add-on's token", data["token"])

    await addon_fleet.client.delete(SECRETS, addon_fleet.secret_key(key))
    again = await addon_fleet.secret(key, lambda now: now["token"] != data["token"])
    canary.look_for("the add-on's second token", again["token"])
    await addon_fleet.refreshed(key)

    await canary.assert_cluster_not_leaking(addon_fleet.client, MANAGED_CLUSTER_ADDONS, SERVICE_ACCOUNTS, CONFIG_MAPS)
