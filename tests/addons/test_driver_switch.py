"""From one driver to the other and back: the add-on never loses its credential, and nothing is left over."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.addons.fleet import AddonFleet, drivers_of
from tests.helpers.fleet import lifetime_settings

from watchword.addons.definition import AddonDefinition, Grant
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTER_ADDONS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.kube.access_reviews import who_am_i
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.pki.certificates import parse_certificate
from watchword.testing.eventually import eventually

CERTIFICATE_KEYS = {"cluster-name", "kubeconfig", "tls.crt", "tls.key"}
TOKEN_KEYS = {"cluster-name", "expiration", "kubeconfig", "refresh-at", "service-account-uid", "token"}


def condition_types(obj: Object) -> set[str]:
    return {row["type"] for row in obj["status"]["conditions"]}


async def test_certificate_is_the_default(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="csr")
    key = await addon_fleet.enable("reporter", cluster)

    data = await addon_fleet.secret(key)

    user = f"system:open-cluster-management:cluster:{cluster}:addon:reporter:agent:reporter"
    group = f"system:open-cluster-management:cluster:{cluster}:addon:reporter"
    assert set(data) == CERTIFICATE_KEYS
    identity = await who_am_i(addon_fleet.as_certificate(data))
    assert identity.username == user
    assert {group, "system:open-cluster-management:addon:reporter"} <= set(identity.groups)
    await addon_fleet.says(key, ConditionType.CERTIFICATE_ROTATED, reason="ClientCertificateUpdated")


@pytest.mark.planes("embedded")  # in real time it would take most of an hour
async def test_certificate_is_renewed_in_time(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="csr", settings=lifetime_settings(certificate=timedelta(hours=1)))
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)
    end = parse_certificate(first["tls.crt"]).not_after

    second = await addon_fleet.secret(key, lambda data: data["tls.crt"] != first["tls.crt"], within=3600)

    assert addon_fleet.plane.clock.now() < end
    assert set(second) == CERTIFICATE_KEYS
    one, other = [await who_am_i(addon_fleet.as_certificate(data)) for data in (first, second)]
    assert (one.username, set(one.groups)) == (other.username, set(other.groups))


async def test_token_becomes_a_certificate_and_leaves_nothing(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="token")
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.refreshed(key)

    await addon_fleet.start_agent(cluster, auth="csr")

    data = await addon_fleet.secret(key, lambda data: set(data) == CERTIFICATE_KEYS)
    assert parse_kubeconfig(data["kubeconfig"]).choose().user.token_file is None
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")
    role = ObjectKey(cluster, "reporter-token-role")
    await addon_fleet.gone(SERVICE_ACCOUNTS, account)
    await addon_fleet.gone(ROLES, role)
    await addon_fleet.gone(ROLE_BINDINGS, role)
    await addon_fleet.until(
        key, lambda obj: find_condition(obj or {}, ConditionType.TOKEN_INFRASTRUCTURE_READY) is None
    )
    assert condition_types(await addon_fleet.client.get(MANAGED_CLUSTER_ADDONS, key)) == {
        "Available",
        "ClusterCertificateRotated",
    }


async def test_certificate_becomes_a_token_and_leaves_nothing(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="csr")
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.says(key, ConditionType.CERTIFICATE_ROTATED)

    await addon_fleet.start_agent(cluster, auth="token")

    data = await addon_fleet.secret(key, lambda data: set(data) == TOKEN_KEYS)
    assert str(parse_kubeconfig(data["kubeconfig"]).choose().user.token_file) == "token"
    await addon_fleet.refreshed(key)
    assert condition_types(await addon_fleet.client.get(MANAGED_CLUSTER_ADDONS, key)) == {
        "AddonTokenRefreshed", "Available", "TokenInfrastructureReady", "TokenRefreshed",
    }  # fmt: skip


async def test_old_credential_stays_usable_until_the_new_one_is_there(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="csr")
    key = await addon_fleet.enable("reporter", cluster)
    before = await addon_fleet.secret(key)
    await addon_fleet.members.stop(addon_fleet.hub)  # the account is never created

    await addon_fleet.start_agent(cluster, auth="token")
    await addon_fleet.until(key, lambda obj: list(drivers_of(obj)) == ["token"])

    during = await addon_fleet.secret(key)
    assert during == before


async def test_old_credential_keeps_its_rights_until_the_new_one_is_there(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="csr")
    rule: Object = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    definition = AddonDefinition(
        "reporter", grants=(Grant("reads", rules=(rule,)),), install_namespace=addon_fleet.namespace
    )
    addon_fleet.start_addon(definition)
    key = await addon_fleet.enable("reporter", cluster)
    old = addon_fleet.as_certificate(await addon_fleet.secret(key))
    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED)

    await addon_fleet.start_agent(cluster, auth="token", life=timedelta(minutes=1))  # the hub refuses it
    await addon_fleet.says(key, ConditionType.ADDON_TOKEN_REFRESHED, "False")
    await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED)
    assert (await old.list(CONFIG_MAPS, namespace=cluster)).items is not None

    await addon_fleet.start_agent(cluster, auth="token")
    await addon_fleet.refreshed(key)
    binding = ObjectKey(cluster, "open-cluster-management:reporter:reads:agent")
    await eventually(addon_fleet.client, ROLE_BINDINGS, binding, lambda obj: subject_kinds(obj) == ["ServiceAccount"])


def subject_kinds(binding: Object | None) -> list[str]:
    return [row["kind"] for row in (binding or {}).get("subjects") or ()]


async def test_there_and_back_again(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="token")
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)

    for auth, keys in (("csr", CERTIFICATE_KEYS), ("token", TOKEN_KEYS)):
        await addon_fleet.start_agent(cluster, auth=auth)
        await addon_fleet.secret(key, lambda data, keys=keys: set(data) == keys)  # type: ignore[misc]  # bound now, not later

    last = await addon_fleet.secret(key, lambda data: set(data) == TOKEN_KEYS)
    assert last["token"] != first["token"]
    assert (await who_am_i(addon_fleet.as_token(last["token"]))).uid == last["service-account-uid"].decode()


async def test_clusters_may_use_different_drivers(addon_fleet: AddonFleet) -> None:
    one, other = await addon_fleet.cluster(auth="token"), await addon_fleet.cluster(auth="csr")

    token, certificate = await addon_fleet.enable("reporter-a", one), await addon_fleet.enable("reporter-b", other)

    assert set(await addon_fleet.secret(token)) == TOKEN_KEYS
    assert set(await addon_fleet.secret(certificate)) == CERTIFICATE_KEYS
