from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.helpers.cluster_info_server import ClusterInfoServer, FakeNetwork, signed_cluster_info

from watchword.discovery.cluster_info import EXCHANGE_SECONDS, ClusterInfo, write_cluster_info
from watchword.discovery.discover import BootstrapTokenDiscovery, ClusterDiscovery, PollOptions
from watchword.discovery.errors import DiscoveryError, DiscoveryReason
from watchword.discovery.tokens import BootstrapToken
from watchword.pki.authority import Authority

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OURS, OTHER_CA = Authority.make("ours", now=NOW), Authority.make("other", now=NOW)
HUB = "https://hub:6443"
INFO = ClusterInfo((HUB,), (OURS.certificate,))
FORGED = ClusterInfo((HUB,), (OTHER_CA.certificate,))
TOKEN, OTHER = BootstrapToken.parse("x7k2m9.q8w3e5r1t0y6u4i2"), BootstrapToken.parse("x7k2m9.z8w3e5r1t0y6u4i9")
METHOD = BootstrapTokenDiscovery(HUB, TOKEN, INFO.pins)
UNPINNED = replace(METHOD, pins=(), unsafe_skip_ca_pin=True)
NO_WAIT = PollOptions(timedelta(0))
PATIENCE = PollOptions(timedelta(minutes=5), timedelta(seconds=5))


def a_hub(authority: Authority = OURS, data: dict[str, str] | None = None) -> ClusterInfoServer:
    return ClusterInfoServer(authority, signed_cluster_info(write_cluster_info(INFO), TOKEN) if data is None else data)


def discovery(hub: ClusterInfoServer, told: list[str] | None = None) -> ClusterDiscovery:
    notes = told if told is not None else []
    return ClusterDiscovery(FakeNetwork({HUB: hub}), PATIENCE, notes.append)


async def test_an_address_a_token_and_a_pin_lead_to_the_cluster() -> None:
    hub = a_hub()
    assert await discovery(hub).by_token(METHOD) == INFO
    assert len(hub.requests) == 2
    assert not any(request.header("Authorization") for request in hub.requests)


async def test_the_pin_can_be_waived_but_only_explicitly() -> None:
    assert await discovery(a_hub()).by_token(UNPINNED) == INFO
    hub = a_hub()
    with pytest.raises(DiscoveryError, match="unsafe-skip") as refusal:
        await discovery(hub).by_token(replace(METHOD, pins=()))
    assert (refusal.value.reason, hub.requests) == (DiscoveryReason.PIN_REQUIRED, [])


SIGNED = signed_cluster_info(write_cluster_info(INFO), TOKEN)
TEXT = SIGNED["kubeconfig"]
WITH_USER = TEXT.replace("users: null", "users: [{name: a, user: {token: b}}]")


@pytest.mark.parametrize(
    ("hub", "method", "reason"),
    [
        pytest.param(
            a_hub(OTHER_CA, signed_cluster_info(write_cluster_info(FORGED), OTHER)),
            METHOD,
            DiscoveryReason.SIGNATURE_WRONG,
            id="signed with another secret",
        ),
        pytest.param(
            a_hub(OURS, {**SIGNED, "kubeconfig": TEXT + "\n"}),
            METHOD,
            DiscoveryReason.SIGNATURE_WRONG,
            id="one byte more",
        ),
        pytest.param(
            a_hub(OTHER_CA, signed_cluster_info(write_cluster_info(FORGED), TOKEN)),
            METHOD,
            DiscoveryReason.PIN_MISMATCH,
            id="forged by another holder of the token",
        ),
        pytest.param(
            a_hub(OTHER_CA), METHOD, DiscoveryReason.SERVER_NOT_TRUSTED, id="a relay with another certificate"
        ),
        pytest.param(a_hub(OTHER_CA), UNPINNED, DiscoveryReason.SERVER_NOT_TRUSTED, id="the same without a pin"),
        pytest.param(
            a_hub(OURS, signed_cluster_info(WITH_USER, TOKEN)),
            METHOD,
            DiscoveryReason.CLUSTER_INFO_MALFORMED,
            id="with credentials",
        ),
    ],
)
async def test_what_does_not_prove_itself_is_refused_at_once(
    hub: ClusterInfoServer, method: BootstrapTokenDiscovery, reason: DiscoveryReason
) -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(DiscoveryError) as refusal:
        await discovery(hub).by_token(method)
    assert refusal.value.reason == reason
    assert asyncio.get_running_loop().time() == started
    assert not any(request.header("Authorization") for request in hub.requests)
    assert "q8w3" not in str(refusal.value)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param({"up": False}, DiscoveryReason.SERVER_UNREACHABLE, id="no server"),
        pytest.param({"data": None}, DiscoveryReason.CLUSTER_INFO_MISSING, id="no cluster-info"),
        pytest.param({"data": {"x": "y"}}, DiscoveryReason.CLUSTER_INFO_MISSING, id="an empty one"),
        pytest.param({"data": {"kubeconfig": TEXT}}, DiscoveryReason.SIGNATURE_MISSING, id="not signed for us"),
    ],
)
async def test_what_is_not_there_is_waited_for_and_then_named(
    spoil: dict[str, object], reason: DiscoveryReason
) -> None:
    told: list[str] = []
    started = asyncio.get_running_loop().time()
    with pytest.raises(DiscoveryError) as refusal:
        await discovery(dataclasses.replace(a_hub(), **spoil), told).by_token(METHOD)  # type: ignore[arg-type]  # a table's row
    assert refusal.value.reason == reason
    assert 290 <= asyncio.get_running_loop().time() - started <= 300
    assert len(told) == 2, "the same problem is told once"


@pytest.mark.parametrize("pinned_only", [False, True], ids=["by token", "by pin"])
async def test_server_that_stalls_in_the_middle_of_every_answer_is_given_up_in_time(*, pinned_only: bool) -> None:
    started = asyncio.get_running_loop().time()
    finder = discovery(dataclasses.replace(a_hub(), stalls=True))
    with pytest.raises(DiscoveryError, match="complete") as refusal:
        await (finder.by_pin(HUB, INFO.pins) if pinned_only else finder.by_token(METHOD))
    assert refusal.value.reason == DiscoveryReason.SERVER_UNREACHABLE
    assert asyncio.get_running_loop().time() - started <= PATIENCE.total.total_seconds()


async def test_server_that_stalls_at_the_second_read_is_given_up_within_the_one_timeout() -> None:
    hub, started = a_hub(), asyncio.get_running_loop().time()

    def stall(note: str) -> None:
        hub.stalls = hub.stalls or "asking again" in note

    with pytest.raises(DiscoveryError, match="complete"):
        await ClusterDiscovery(FakeNetwork({HUB: hub}), PATIENCE, stall).by_token(METHOD)
    assert asyncio.get_running_loop().time() - started <= PATIENCE.total.total_seconds()


async def test_stalling_server_costs_one_request_when_no_wait_is_wanted() -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(DiscoveryError, match="complete"):
        await ClusterDiscovery(FakeNetwork({HUB: dataclasses.replace(a_hub(), stalls=True)}), NO_WAIT).by_token(METHOD)
    assert asyncio.get_running_loop().time() - started == EXCHANGE_SECONDS


async def test_a_hub_that_boots_later_than_the_client_is_found() -> None:
    hub, told = dataclasses.replace(a_hub(), up=False), list[str]()
    async with asyncio.TaskGroup() as group:
        found = group.create_task(discovery(hub, told).by_token(METHOD))
        await asyncio.sleep(60)
        hub.up, hub.data = True, {"kubeconfig": TEXT}
        await asyncio.sleep(60)
        hub.data = SIGNED
    assert found.result() == INFO
    assert any("refused" in line for line in told)
    assert any("not signed" in line for line in told)


async def test_cluster_info_that_changes_between_two_reads_is_refused() -> None:
    hub = a_hub()
    network = FakeNetwork({HUB: hub})
    other = ClusterInfo((HUB, "https://other:6443"), (OURS.certificate,))

    def change(note: str) -> None:
        if "asking again" in note:
            hub.publish(other, TOKEN)

    with pytest.raises(DiscoveryError) as refusal:
        await ClusterDiscovery(network, PATIENCE, change).by_token(METHOD)
    assert refusal.value.reason == DiscoveryReason.CHANGED_IN_BETWEEN


async def test_a_replayed_cluster_info_of_a_replaced_authority_is_refused_by_the_new_pin() -> None:
    rotated = Authority.make("ours, new", now=NOW)
    new = ClusterInfo((HUB,), (rotated.certificate,))
    with pytest.raises(DiscoveryError) as refusal:
        await discovery(a_hub()).by_token(replace(METHOD, pins=new.pins))
    assert refusal.value.reason == DiscoveryReason.PIN_MISMATCH


async def test_pin_of_a_rotated_authority_is_refused_when_the_server_uses_the_new_one() -> None:
    rotated = Authority.make("ours, new", now=NOW)
    both = ClusterInfo((HUB,), (OURS.certificate, rotated.certificate))
    hub = a_hub(rotated, signed_cluster_info(write_cluster_info(both), TOKEN))
    with pytest.raises(DiscoveryError) as refusal:
        await discovery(hub).by_token(METHOD)
    assert refusal.value.reason == DiscoveryReason.SERVER_NOT_TRUSTED
    assert await discovery(hub).by_token(replace(METHOD, pins=(rotated.certificate.pin,))) == both


async def test_a_document_is_trusted_and_replaced_by_what_the_cluster_publishes() -> None:
    newer = ClusterInfo((HUB, "https://second:6443"), (OURS.certificate,))
    hub = a_hub(OURS, signed_cluster_info(write_cluster_info(newer)))
    assert await discovery(hub).by_document(TEXT.encode()) == newer


@pytest.mark.parametrize(
    "published",
    [
        pytest.param(None, id="nothing is published to us"),
        pytest.param({"kubeconfig": WITH_USER}, id="something unusable is published"),
    ],
)
async def test_a_document_stands_when_the_cluster_publishes_nothing_better(published: dict[str, str] | None) -> None:
    assert await discovery(dataclasses.replace(a_hub(), data=published)).by_document(TEXT.encode()) == INFO


async def test_a_document_is_not_refreshed_from_a_server_of_another_authority() -> None:
    with pytest.raises(DiscoveryError) as refusal:
        await discovery(a_hub(OTHER_CA)).by_document(TEXT.encode())
    assert refusal.value.reason == DiscoveryReason.SERVER_NOT_TRUSTED
