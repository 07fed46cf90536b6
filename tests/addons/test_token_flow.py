"""An add-on's token from the first request to the last clean-up, as the design orders it."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from tests.addons.fleet import KUBE_CLIENT, AddonFleet, account_of, drivers_of, registrations_of
from tests.helpers.cluster_info_server import ClusterInfoServer, FakeNetwork
from tests.helpers.fleet import PlaneConnector

from watchword.addons.token.hub import parse_ready_message
from watchword.api.conditions import find_condition
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.lifecycle import RENEWAL_WINDOW, read_bound_token
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Invalid
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.pki.authority import Authority
from watchword.runtime.metrics import ReconcileResult
from watchword.testing.builders import a_namespace
from watchword.testing.eventually import eventually, exists

MOVED = "https://moved.test:6443"
AUTHORITY = Authority.make("hub", now=datetime(2026, 1, 1, tzinfo=UTC))
FAILED = ("addon-credential", ReconcileResult.ERROR)
READY = ConditionType.TOKEN_INFRASTRUCTURE_READY


@dataclass
class MovingConnector(PlaneConnector):
    """Reaches the hub of the test, which proves itself by an authority of ours wherever it moves."""

    def entry(self) -> ClusterEntry:
        return ClusterEntry(self.server, ca_data=AUTHORITY.certificate.pem)


def instant(data: dict[str, bytes], name: str) -> datetime:
    found = parse_rfc3339(data[name].decode())
    assert found is not None
    return found


async def test_every_step_is_taken_by_the_identity_that_the_design_names(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    said = await addon_fleet.refreshed(key)

    addon = await addon_fleet.client.get(MANAGED_CLUSTER_ADDONS, key)
    user = f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"
    assert registrations_of(addon) == [
        {"type": "kubeClient", "kubeClient": {"driver": "token", "subject": {"user": user}}}
    ]
    account = await addon_fleet.client.get(SERVICE_ACCOUNTS, account_of(key))
    ready = find_condition(addon, READY)
    assert ready is not None
    assert ready.message == f"ServiceAccount {account_of(key)} (UID: {uid_of(account)}) is ready"
    data = await addon_fleet.secret(key)
    assert data["service-account-uid"].decode() == uid_of(account)
    assert data["expiration"].decode() in said.message
    assert (await who_am_i(addon_fleet.as_token(data["token"]))).username == user


async def test_kubeconfig_beside_the_token_works_as_it_lies(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())

    data = await addon_fleet.secret(key)

    choice = parse_kubeconfig(data["kubeconfig"]).choose()
    assert (choice.cluster.server, choice.cluster.ca_data) == ("https://hub.test:6443", addon_fleet.plane.ca_pem)
    assert str(choice.user.token_file) == "token"
    assert set(data) == {
        "cluster-name", "expiration", "kubeconfig", "refresh-at", "service-account-uid", "token",
    }  # fmt: skip


async def test_driver_that_the_design_does_not_have_is_refused(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())
    registration = {"type": "kubeClient", "kubeClient": {"driver": "oidc"}}

    with pytest.raises(Invalid, match="driver"):
        await addon_fleet.client.patch(
            MANAGED_CLUSTER_ADDONS, key, {"status": {"registrations": [registration]}}, subresource="status"
        )


async def test_condition_of_open_cluster_management_is_equivalent(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())

    ours = await addon_fleet.refreshed(key)
    theirs = await addon_fleet.says(key, ConditionType.TOKEN_REFRESHED)

    assert (ours.reason, theirs.reason, theirs.message) == ("AddonTokenRefreshed", "AddonTokenRefreshed", ours.message)


@pytest.mark.planes("embedded")  # in real time it would take half an hour
async def test_token_is_refreshed_at_its_instant_and_before_80_percent_of_its_validity(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster(life=timedelta(hours=1)))
    first = await addon_fleet.secret(key)
    due = instant(first, "refresh-at")

    second = await addon_fleet.secret(key, lambda data: data["token"] != first["token"], within=3600)

    facts = read_bound_token(second["token"].decode())
    assert facts is not None
    assert timedelta(0) <= facts.issued_at - due < timedelta(seconds=2)
    refresh = (instant(second, "refresh-at") - facts.issued_at) / facts.lifetime
    assert RENEWAL_WINDOW.start <= refresh <= RENEWAL_WINDOW.end


@pytest.mark.planes("embedded")  # in real time it would take hours
async def test_token_that_expired_while_no_agent_ran_is_replaced_at_once(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(life=timedelta(hours=1))
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)
    await addon_fleet.stop_agent(cluster)
    await asyncio.sleep(timedelta(hours=2).total_seconds())
    assert await addon_fleet.is_refused(first["token"])

    await addon_fleet.start_agent(cluster, life=timedelta(hours=1))

    second = await addon_fleet.secret(key, lambda data: data["token"] != first["token"])
    assert (await who_am_i(addon_fleet.as_token(second["token"]))).uid == first["service-account-uid"].decode()


@pytest.mark.planes("embedded")  # in real time it would take ten minutes
async def test_tokens_are_replaced_when_the_hub_withdraws_its_signing_key(private_addon_fleet: AddonFleet) -> None:
    fleet = private_addon_fleet
    cluster = await fleet.cluster()
    keys = [await fleet.enable(name, cluster) for name in ("reporter", "collector")]
    first = [await fleet.secret(key) for key in keys]

    await fleet.plane.rotate_signing_key(keep_old=False)

    for key, before in zip(keys, first, strict=True):
        assert await fleet.is_refused(before["token"])
        after = await fleet.secret(key, lambda data, before=before: data["token"] != before["token"], within=900)  # type: ignore[misc]  # now
        assert (await who_am_i(fleet.as_token(after["token"]))).uid == before["service-account-uid"].decode()


async def test_token_is_replaced_when_the_lifetime_is_lowered(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(life=timedelta(days=1))
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)

    await addon_fleet.start_agent(cluster, life=timedelta(hours=1))

    second = await addon_fleet.secret(key, lambda data: data["token"] != first["token"])
    token = read_bound_token(second["token"].decode())
    assert token is not None
    assert token.lifetime == timedelta(hours=1)


async def test_refused_lifetime_is_reported_with_the_servers_reason(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster(life=timedelta(minutes=1)))

    said = await addon_fleet.says(key, ConditionType.ADDON_TOKEN_REFRESHED, "False", "TokenRequestInvalid")

    assert "may not specify a duration less than 10 minutes" in said.message


async def test_recreated_account_brings_a_new_token(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())
    first = await addon_fleet.secret(key)

    await addon_fleet.client.delete(SERVICE_ACCOUNTS, account_of(key))

    second = await addon_fleet.secret(key, lambda data: data["service-account-uid"] != first["service-account-uid"])
    account = await addon_fleet.client.get(SERVICE_ACCOUNTS, account_of(key))
    assert second["service-account-uid"].decode() == uid_of(account)
    assert (await who_am_i(addon_fleet.as_token(second["token"]))).uid == uid_of(account)
    assert await addon_fleet.is_refused(first["token"])


async def test_deleted_secret_comes_back(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())
    await addon_fleet.refreshed(key)
    before = await addon_fleet.client.get(SECRETS, addon_fleet.secret_key(key))

    await addon_fleet.client.delete(SECRETS, addon_fleet.secret_key(key))

    await addon_fleet.secret(key)
    assert uid_of(await addon_fleet.client.get(SECRETS, addon_fleet.secret_key(key))) != uid_of(before)


async def test_damaged_secret_is_mended_and_foreign_keys_stay(addon_fleet: AddonFleet) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster())
    first = await addon_fleet.secret(key)

    damage = {"token": base64.b64encode(b"junk").decode(), "kubeconfig": None, "mine": base64.b64encode(b"x").decode()}
    await addon_fleet.client.patch(SECRETS, addon_fleet.secret_key(key), {"data": damage})

    mended = await addon_fleet.secret(
        key, lambda data: read_bound_token(data["token"].decode()) is not None and "mine" in data
    )
    assert mended["mine"] == b"x"
    assert mended["kubeconfig"] == first["kubeconfig"]


async def test_hub_that_moves_is_followed_without_a_new_token(addon_fleet: AddonFleet) -> None:
    cluster = addon_fleet.members.name("moving")
    addon_fleet.connectors[cluster] = MovingConnector(addon_fleet.plane)
    network = FakeNetwork({MOVED: ClusterInfoServer(AUTHORITY)})
    await addon_fleet.start_agent(cluster, network=network)
    await addon_fleet.members.joined(cluster)
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)

    addon_fleet.connectors[cluster].server = MOVED
    await addon_fleet.start_agent(cluster, network=network)

    moved = await addon_fleet.secret(key, lambda data: data["kubeconfig"] != first["kubeconfig"])
    assert MOVED.encode() in moved["kubeconfig"]
    assert moved["token"] == first["token"]


async def test_token_that_ocm_stored_is_kept(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)
    await addon_fleet.refreshed(key)
    await addon_fleet.stop_agent(cluster)
    where = addon_fleet.secret_key(key)
    labels = (await addon_fleet.client.get(SECRETS, where))["metadata"]["labels"]
    ours = ("expiration", "service-account-uid", "refresh-at")
    patch = {"metadata": {"labels": dict.fromkeys(labels)}, "data": dict.fromkeys(ours)}
    await addon_fleet.client.patch(SECRETS, where, patch)

    await addon_fleet.start_agent(cluster)

    adopted = await eventually(
        addon_fleet.client, SECRETS, where, lambda obj: obj is not None and obj["metadata"].get("labels") == labels
    )
    assert decode_data(adopted) == {name: first[name] for name in ("cluster-name", "kubeconfig", "token")}
    await addon_fleet.refreshed(key)
    assert (await addon_fleet.secret(key))["token"] == first["token"]


@pytest.mark.planes("embedded")  # where the count is there by the time the Secret is seen
async def test_refreshes_are_counted(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    first = await addon_fleet.secret(key)
    await addon_fleet.refreshed(key)

    await addon_fleet.client.delete(SECRETS, addon_fleet.secret_key(key))
    await addon_fleet.secret(key, lambda data: data["token"] != first["token"])
    await addon_fleet.stop_agent(cluster)

    labels = {"kind": "addon-token", "result": "success", "reason": ""}
    assert addon_fleet.registries[cluster].get_sample_value("watchword_rotation_total", labels) == 1


@pytest.mark.parametrize(("auth", "name"), [("token", "token"), ("csr", "tls.crt")])
async def test_administrator_may_ask_for_an_early_renewal(addon_fleet: AddonFleet, auth: str, name: str) -> None:
    key = await addon_fleet.enable("reporter", await addon_fleet.cluster(auth=auth))
    first = await addon_fleet.secret(key)

    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "please"}}}
    await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, patch)

    await addon_fleet.secret(key, lambda data: data[name] != first[name])


async def test_addon_may_live_in_any_namespace_even_the_agents_own(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    own, name = "open-cluster-management-agent", f"local{addon_fleet.mark}"
    key = await addon_fleet.enable(name, cluster)
    await addon_fleet.register(key, namespace=own)
    await addon_fleet.refreshed(key)
    secret = ObjectKey(own, f"{name}-hub-kubeconfig")
    before = await eventually(addon_fleet.client, SECRETS, secret)

    await addon_fleet.client.delete(SECRETS, secret)

    await eventually(addon_fleet.client, SECRETS, secret, lambda obj: obj is not None and uid_of(obj) != uid_of(before))
    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)
    await addon_fleet.gone(SECRETS, secret)


async def test_restarted_agent_requests_no_credential(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.refreshed(key)
    before = await addon_fleet.client.get(SECRETS, addon_fleet.secret_key(key))

    await addon_fleet.start_agent(cluster)
    other = await addon_fleet.enable("other", cluster)
    await addon_fleet.refreshed(other)

    assert await addon_fleet.client.get(SECRETS, addon_fleet.secret_key(key)) == before


async def test_addon_removed_while_no_agent_ran_leaves_nothing(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.refreshed(key)
    await addon_fleet.stop_agent(cluster)
    await addon_fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)

    await addon_fleet.start_agent(cluster)

    await addon_fleet.gone(SECRETS, addon_fleet.secret_key(key))


async def test_account_named_by_open_cluster_management_is_understood(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    await addon_fleet.stop_agent(cluster)
    user = f"system:serviceaccount:{cluster}:reporter-agent"
    key = await addon_fleet.enable(
        "reporter", cluster, {**KUBE_CLIENT, "kubeClient": {"driver": "token", "subject": {"user": user}}}
    )
    said = await addon_fleet.says(key, READY)
    account = parse_ready_message(said.message)
    assert account is not None
    assert account.name == "reporter-agent"

    await addon_fleet.start_agent(cluster)

    data = await addon_fleet.secret(key)
    assert (await who_am_i(addon_fleet.as_token(data["token"]))).username == user
    assert list(drivers_of(await addon_fleet.client.get(MANAGED_CLUSTER_ADDONS, key))) == ["token"]


async def test_older_shape_of_registrations_is_understood(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    key = await addon_fleet.enable("reporter", cluster, {"signerName": "kubernetes.io/kube-apiserver-client"})

    await addon_fleet.secret(key)

    addon = await addon_fleet.client.get(MANAGED_CLUSTER_ADDONS, key)
    user = f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"
    assert registrations_of(addon) == [{"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": user}}]
    assert addon["status"]["kubeClientDriver"] == "token"


@pytest.mark.planes("embedded")  # minutes pass
async def test_token_that_cannot_be_stored_is_seldom_requested_until_it_can(addon_fleet: AddonFleet) -> None:
    cluster, missing = await addon_fleet.cluster(), addon_fleet.plane.unique("missing")
    key = await addon_fleet.enable("reporter", cluster)
    await addon_fleet.register(key, namespace=missing)
    await addon_fleet.says(key, ConditionType.ADDON_TOKEN_REFRESHED, "False", "SecretNotStored")

    for number in range(600):  # whatever triggers the reconciler
        metadata = {"annotations": {"example.test/changed": str(number)}}
        await addon_fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, {"metadata": metadata})
        await asyncio.sleep(1)
    family = next(each for each in addon_fleet.registries[cluster].families if each.name == "watchword_reconcile")
    failed = [count for _, row, count in family.samples() if (row["controller"], row["result"]) == FAILED]
    assert 5 < sum(failed) < 20

    await addon_fleet.client.create(NAMESPACES, a_namespace(missing))
    stored = ObjectKey(missing, addon_fleet.secret_key(key).name)
    await eventually(addon_fleet.client, SECRETS, stored, exists, within=300.0)
