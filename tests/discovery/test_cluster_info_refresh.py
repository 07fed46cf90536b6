"""A client that refreshes cluster-info finds a hub that moved, and trusts no other server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.helpers.cluster_info_server import ClusterInfoServer, FakeNetwork

from watchword.discovery.cluster_info import EXCHANGE_SECONDS, ClusterInfo
from watchword.pki.authority import Authority
from watchword.registration.agent.hub_endpoint import ClusterInfoRefresher, RefreshResult

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD, NEW, OTHER_CA = (Authority.make(name, now=NOW) for name in ("old", "new", "other"))
A, B, C = "https://a:6443", "https://b:6443", "https://c:6443"


def info(*endpoints: str, by: tuple[Authority, ...] = (OLD,)) -> ClusterInfo:
    return ClusterInfo(endpoints, tuple(authority.certificate for authority in by))


def a_client(network: FakeNetwork, known: ClusterInfo, address: str = "") -> ClusterInfoRefresher:
    return ClusterInfoRefresher(known, address or known.server, network)


def a_hub(published: ClusterInfo, authority: Authority = OLD) -> ClusterInfoServer:
    hub = ClusterInfoServer(authority)
    hub.publish(published)
    return hub


async def test_nothing_new_changes_nothing_and_costs_one_request() -> None:
    hub = a_hub(info(A))
    client = a_client(FakeNetwork({A: hub}), info(A))

    assert (await client.refresh(), client.info) == (RefreshResult.CURRENT, info(A))
    assert len(hub.requests) == 1


async def test_address_that_stalls_in_the_middle_of_an_answer_is_passed_over_in_seconds() -> None:
    network = FakeNetwork({A: a_hub(info(A, B)), B: a_hub(info(A, B))})
    network.servers[A].stalls = True
    client, started = a_client(network, info(A, B)), asyncio.get_running_loop().time()

    assert await client.refresh() == RefreshResult.UPDATED
    assert client.address == B
    assert asyncio.get_running_loop().time() - started == EXCHANGE_SECONDS


async def test_client_that_polls_survives_a_rotation_of_the_authority() -> None:
    hub, seen = a_hub(info(A)), list[RefreshResult]()
    client = a_client(FakeNetwork({A: hub}), info(A))
    for published, serving in (
        (info(A, by=(OLD, NEW)), OLD),  # first every member learns the new authority
        (info(A, by=(OLD, NEW)), NEW),  # then the server uses it
        (info(A, by=(NEW,)), NEW),  # then the old one is forgotten
    ):
        hub.publish(published)
        hub.authority = serving
        seen.append(await client.refresh())

    assert client.info == info(A, by=(NEW,))
    assert seen == [RefreshResult.UPDATED, RefreshResult.CURRENT, RefreshResult.UPDATED]


async def test_a_client_follows_a_hub_that_moves() -> None:
    old_place, new_place = a_hub(info(A)), a_hub(info(C))
    network = FakeNetwork({A: old_place})
    client = a_client(network, info(A))
    old_place.publish(info(B))
    network.servers[B] = a_hub(info(B))
    assert (await client.refresh(), client.address) == (RefreshResult.UPDATED, A)  # the server still responds there

    old_place.up = False
    assert (await client.refresh(), client.address) == (RefreshResult.UPDATED, B)

    network.servers[B].publish(info(C))
    network.servers[C] = new_place
    await client.refresh()
    network.servers[B].up = False
    assert (await client.refresh(), client.address, client.info) == (RefreshResult.UPDATED, C, info(C))


async def test_configured_address_is_kept_while_it_works() -> None:
    published = info(A, by=(OLD, NEW))
    network = FakeNetwork({A: a_hub(published), B: a_hub(published)})
    client = a_client(network, info(B))

    assert (await client.refresh(), client.address, client.info) == (RefreshResult.UPDATED, B, published)
    assert network.servers[A].requests == []


async def test_what_is_published_is_not_taken_over_before_it_works() -> None:
    hub = a_hub(info(A, by=(NEW,)))  # published too early: the server still shows the old certificate
    client = a_client(FakeNetwork({A: hub}), info(A))
    assert (await client.refresh(), client.info) == (RefreshResult.KEPT, info(A))

    hub.authority = NEW
    assert (await client.refresh(), client.info) == (RefreshResult.LOST, info(A))


async def test_cluster_info_of_an_untrusted_server_changes_nothing() -> None:
    impostor = a_hub(info(A, by=(OTHER_CA,)), OTHER_CA)
    client = a_client(FakeNetwork({A: impostor}), info(A))

    assert (await client.refresh(), client.info) == (RefreshResult.LOST, info(A))
    assert not any(request.header("Authorization") for request in impostor.requests)


async def test_authority_without_an_address_that_proves_it_is_not_trusted() -> None:
    network = FakeNetwork(
        {A: a_hub(info(C, by=(OTHER_CA,)))}
    )  # an attacker who can write cluster-info has no such server

    client = a_client(network, info(A))

    assert (await client.refresh(), client.info, client.address) == (RefreshResult.KEPT, info(A), A)


@pytest.mark.parametrize("data", [None, {"kubeconfig": "nonsense"}], ids=["nothing published", "nonsense published"])
async def test_a_cluster_that_publishes_nothing_usable_is_kept(data: dict[str, str] | None) -> None:
    client = a_client(FakeNetwork({A: ClusterInfoServer(OLD, data)}), info(A))

    assert (await client.refresh(), client.info) == (RefreshResult.KEPT, info(A))
