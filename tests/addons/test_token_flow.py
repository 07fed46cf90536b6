"""An add-on's token from the first wish to the last clean-up, as the design orders it."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from tests.addons.fleet import KUBE_CLIENT, AddonFleet, account_of, drivers_of, registrations_of

from watchword.agent.secret_data import decode_data
from watchword.api.conditions import find_condition
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.drivers.token.account import parse_ready_message
from watchword.drivers.token.decisions import read_token_claims
from watchword.kube.access_reviews import who_am_i
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_parser import parse_kubeconfig
from watchword.pki.authority import Authority
from watchword.testing.cluster_info_server import ClusterInfoServer, FakeNetwork
from watchword.testing.eventually import eventually
from watchword.testing.fleet import PlaneConnector

MOVED = "https://moved.test:6443"
AUTHORITY = Authority.make("hub", now=datetime(2026, 1, 1, tzinfo=UTC))
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


async def test_every_step_is_taken_by_whom_the_design_says(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    key = await fleet.enable("reporter", cluster)
    said = await fleet.refreshed(key)

    addon = await fleet.client.get(MANAGED_CLUSTER_ADDONS, key)
    user = f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"
    assert registrations_of(addon) == [
        {"type": "kubeClient", "kubeClient": {"driver": "token", "subject": {"user": user}}}
    ]
    account = await fleet.client.get(SERVICE_ACCOUNTS, account_of(key))
    ready = find_condition(addon, READY)
    assert ready is not None
    assert ready.message == f"ServiceAccount {account_of(key)} (UID: {uid_of(account)}) is ready"
    data = await fleet.secret(key)
    assert data["service-account-uid"].decode() == uid_of(account)
    assert data["expiration"].decode() in said.message
    assert (await who_am_i(fleet.as_token(data["token"]))).username == user


async def test_kubeconfig_beside_the_token_works_as_it_lies(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster())

    data = await fleet.secret(key)

    choice = parse_kubeconfig(data["kubeconfig"]).choose()
    assert (choice.cluster.server, choice.cluster.ca_data) == ("https://hub.test:6443", fleet.plane.ca_pem)
    assert str(choice.user.token_file) == "token"
    assert set(data) == {
        "cluster-name", "expiration", "kubeconfig", "refresh-at", "service-account-uid", "token",
    }  # fmt: skip


async def test_shipped_systems_condition_says_the_same(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster())

    ours = await fleet.refreshed(key)
    theirs = await fleet.says(key, ConditionType.TOKEN_REFRESHED)

    assert (ours.reason, theirs.reason, theirs.message) == ("AddonTokenRefreshed", "AddonTokenRefreshed", ours.message)


@pytest.mark.planes("embedded")  # in real time it would take half an hour
async def test_token_is_refreshed_at_its_instant_and_before_four_fifths_of_its_life(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster(life=timedelta(hours=1)))
    first = await fleet.secret(key)
    due = instant(first, "refresh-at")

    second = await fleet.secret(key, lambda data: data["token"] != first["token"], within=3600)

    facts = read_token_claims(second["token"].decode())
    assert facts is not None
    assert timedelta(0) <= facts.issued_at - due < timedelta(seconds=2)
    assert (instant(second, "refresh-at") - facts.issued_at) / facts.lifetime > 0.69


@pytest.mark.planes("embedded")  # in real time it would take hours
async def test_token_that_expired_while_no_agent_ran_is_replaced_at_once(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster(life=timedelta(hours=1))
    key = await fleet.enable("reporter", cluster)
    first = await fleet.secret(key)
    await fleet.stop_agent(cluster)
    await asyncio.sleep(timedelta(hours=2).total_seconds())
    assert await fleet.is_refused(first["token"])

    await fleet.start_agent(cluster, life=timedelta(hours=1))

    second = await fleet.secret(key, lambda data: data["token"] != first["token"])
    assert (await who_am_i(fleet.as_token(second["token"]))).uid == first["service-account-uid"].decode()


async def test_life_that_the_server_refuses_is_said_with_its_reason(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster(life=timedelta(minutes=1)))

    said = await fleet.says(key, ConditionType.ADDON_TOKEN_REFRESHED, "False", "TokenRequestInvalid")

    assert "may not specify a duration less than 10 minutes" in said.message


async def test_account_that_was_made_anew_brings_a_new_token(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster())
    first = await fleet.secret(key)

    await fleet.client.delete(SERVICE_ACCOUNTS, account_of(key))

    second = await fleet.secret(key, lambda data: data["service-account-uid"] != first["service-account-uid"])
    account = await fleet.client.get(SERVICE_ACCOUNTS, account_of(key))
    assert second["service-account-uid"].decode() == uid_of(account)
    assert (await who_am_i(fleet.as_token(second["token"]))).uid == uid_of(account)
    assert await fleet.is_refused(first["token"])


async def test_deleted_secret_comes_back(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster())
    await fleet.refreshed(key)
    before = await fleet.client.get(SECRETS, fleet.secret_key(key))

    await fleet.client.delete(SECRETS, fleet.secret_key(key))

    await fleet.secret(key)
    assert uid_of(await fleet.client.get(SECRETS, fleet.secret_key(key))) != uid_of(before)


async def test_damaged_secret_is_mended_and_foreign_keys_stay(fleet: AddonFleet) -> None:
    key = await fleet.enable("reporter", await fleet.cluster())
    first = await fleet.secret(key)

    damage = {"token": base64.b64encode(b"junk").decode(), "kubeconfig": None, "mine": base64.b64encode(b"x").decode()}
    await fleet.client.patch(SECRETS, fleet.secret_key(key), {"data": damage})

    mended = await fleet.secret(
        key, lambda data: read_token_claims(data["token"].decode()) is not None and "mine" in data
    )
    assert mended["mine"] == b"x"
    assert mended["kubeconfig"] == first["kubeconfig"]


async def test_hub_that_moves_is_followed_without_a_new_token(fleet: AddonFleet) -> None:
    cluster = fleet.members.name("moving")
    fleet.connectors[cluster] = MovingConnector(fleet.plane)
    network = FakeNetwork({MOVED: ClusterInfoServer(AUTHORITY)})
    await fleet.start_agent(cluster, network=network)
    await fleet.members.joined(cluster)
    key = await fleet.enable("reporter", cluster)
    first = await fleet.secret(key)

    fleet.connectors[cluster].server = MOVED
    await fleet.start_agent(cluster, network=network)

    moved = await fleet.secret(key, lambda data: data["kubeconfig"] != first["kubeconfig"])
    assert MOVED.encode() in moved["kubeconfig"]
    assert moved["token"] == first["token"]


async def test_token_that_ocm_stored_is_kept(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    key = await fleet.enable("reporter", cluster)
    first = await fleet.secret(key)
    await fleet.refreshed(key)
    await fleet.stop_agent(cluster)
    where = fleet.secret_key(key)
    labels = (await fleet.client.get(SECRETS, where))["metadata"]["labels"]
    ours = ("expiration", "service-account-uid", "refresh-at")
    patch = {"metadata": {"labels": dict.fromkeys(labels)}, "data": dict.fromkeys(ours)}
    await fleet.client.patch(SECRETS, where, patch)

    await fleet.start_agent(cluster)

    adopted = await eventually(
        fleet.client, SECRETS, where, lambda obj: obj is not None and obj["metadata"].get("labels") == labels
    )
    assert decode_data(adopted) == {name: first[name] for name in ("cluster-name", "kubeconfig", "token")}
    await fleet.refreshed(key)
    assert (await fleet.secret(key))["token"] == first["token"]


@pytest.mark.planes("embedded")  # where the count is there by the time the Secret is seen
async def test_refreshes_are_counted(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    key = await fleet.enable("reporter", cluster)
    first = await fleet.secret(key)
    await fleet.refreshed(key)

    await fleet.client.delete(SECRETS, fleet.secret_key(key))
    await fleet.secret(key, lambda data: data["token"] != first["token"])
    await fleet.stop_agent(cluster)

    labels = {"kind": "addon-token", "result": "success", "reason": ""}
    assert fleet.registries[cluster].get_sample_value("watchword_rotation_total", labels) == 1


@pytest.mark.parametrize(("auth", "name"), [("token", "token"), ("csr", "tls.crt")])
async def test_administrator_may_ask_for_an_early_renewal(fleet: AddonFleet, auth: str, name: str) -> None:
    key = await fleet.enable("reporter", await fleet.cluster(auth=auth))
    first = await fleet.secret(key)

    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "please"}}}
    await fleet.client.patch(MANAGED_CLUSTER_ADDONS, key, patch)

    await fleet.secret(key, lambda data: data[name] != first[name])


async def test_addon_may_live_in_any_namespace_even_the_agents_own(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    own, name = "open-cluster-management-agent", f"local{fleet.mark}"
    key = await fleet.enable(name, cluster)
    await fleet.register(key, namespace=own)
    await fleet.refreshed(key)
    secret = ObjectKey(own, f"{name}-hub-kubeconfig")
    before = await eventually(fleet.client, SECRETS, secret)

    await fleet.client.delete(SECRETS, secret)

    await eventually(fleet.client, SECRETS, secret, lambda obj: obj is not None and uid_of(obj) != uid_of(before))
    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)
    await fleet.gone(SECRETS, secret)


async def test_restarted_agent_asks_for_nothing(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    key = await fleet.enable("reporter", cluster)
    await fleet.refreshed(key)
    before = await fleet.client.get(SECRETS, fleet.secret_key(key))

    await fleet.start_agent(cluster)
    other = await fleet.enable("other", cluster)
    await fleet.refreshed(other)

    assert await fleet.client.get(SECRETS, fleet.secret_key(key)) == before


async def test_addon_removed_while_no_agent_ran_leaves_nothing(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    key = await fleet.enable("reporter", cluster)
    await fleet.refreshed(key)
    await fleet.stop_agent(cluster)
    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, key)

    await fleet.start_agent(cluster)

    await fleet.gone(SECRETS, fleet.secret_key(key))


async def test_account_named_by_the_shipped_system_is_understood(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    await fleet.stop_agent(cluster)
    user = f"system:serviceaccount:{cluster}:reporter-agent"
    key = await fleet.enable(
        "reporter", cluster, {**KUBE_CLIENT, "kubeClient": {"driver": "token", "subject": {"user": user}}}
    )
    said = await fleet.says(key, READY)
    account = parse_ready_message(said.message)
    assert account is not None
    assert account.name == "reporter-agent"

    await fleet.start_agent(cluster)

    data = await fleet.secret(key)
    assert (await who_am_i(fleet.as_token(data["token"]))).username == user
    assert list(drivers_of(await fleet.client.get(MANAGED_CLUSTER_ADDONS, key))) == ["token"]


async def test_older_shape_of_registrations_is_understood(fleet: AddonFleet) -> None:
    cluster = await fleet.cluster()
    key = await fleet.enable("reporter", cluster, {"signerName": "kubernetes.io/kube-apiserver-client"})

    await fleet.secret(key)

    addon = await fleet.client.get(MANAGED_CLUSTER_ADDONS, key)
    user = f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"
    assert registrations_of(addon) == [{"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": user}}]
    assert addon["status"]["kubeClientDriver"] == "token"
