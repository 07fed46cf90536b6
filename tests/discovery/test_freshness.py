from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.freshness import ClusterInfoStore, FreshClusterInfo, Freshness
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.errors import ConfigError
from watchword.pki.authority import Authority
from watchword.testing.publishing import Publisher, SimulatedNetwork

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD, NEW, STRANGER = (Authority.make(name, now=NOW) for name in ("old", "new", "stranger"))
A, B, C = "https://a:6443", "https://b:6443", "https://c:6443"
TOKEN, FOREIGN = BootstrapToken.generate(), BootstrapToken.generate()


def info(*endpoints: str, by: tuple[Authority, ...] = (OLD,)) -> ClusterInfo:
    return ClusterInfo(endpoints, tuple(authority.certificate for authority in by))


def a_client(network: SimulatedNetwork, known: ClusterInfo, token: BootstrapToken | None = None) -> FreshClusterInfo:
    return FreshClusterInfo(known, network, token, every=timedelta(minutes=10), random=Random(1))


def a_hub(published: ClusterInfo, authority: Authority = OLD, *tokens: BootstrapToken) -> Publisher:
    hub = Publisher(authority)
    hub.publish(published, *tokens)
    return hub


async def test_nothing_new_changes_nothing() -> None:
    client = a_client(SimulatedNetwork({A: a_hub(info(A))}), info(A))
    assert (await client.refresh(), client.info) == (Freshness.CURRENT, info(A))


async def test_a_client_that_looks_now_and_then_survives_a_rotation_of_the_authority() -> None:
    hub = a_hub(info(A))
    client, seen = a_client(SimulatedNetwork({A: hub}), info(A)), list[Freshness]()
    following = asyncio.create_task(client.run(seen.append))
    for published, serving in (
        (info(A, by=(OLD, NEW)), OLD),  # first everybody learns the new authority
        (info(A, by=(OLD, NEW)), NEW),  # then the server uses it
        (info(A, by=(NEW,)), NEW),  # then the old one is forgotten
    ):
        hub.publish(published)
        hub.authority = serving
        await asyncio.sleep(3600)
    following.cancel()
    assert client.info == info(A, by=(NEW,))
    assert seen.count(Freshness.UPDATED) == 2
    assert Freshness.LOST not in seen


async def test_a_client_follows_a_hub_that_moves() -> None:
    old_place, new_place = a_hub(info(A)), a_hub(info(C))
    network = SimulatedNetwork({A: old_place})
    client = a_client(network, info(A))
    old_place.publish(info(A, B))
    network.servers[B] = a_hub(info(A, B))
    assert await client.refresh() == Freshness.UPDATED
    old_place.up = False
    network.servers[B].publish(info(C))
    network.servers[C] = new_place
    assert await client.refresh() == Freshness.UPDATED
    assert client.info == info(C)


async def test_what_is_published_is_not_taken_over_before_it_works() -> None:
    hub = a_hub(info(A, by=(NEW,)))  # published too early: the server still shows the old certificate
    client = a_client(SimulatedNetwork({A: hub}), info(A))
    assert (await client.refresh(), client.info) == (Freshness.KEPT, info(A))
    hub.authority = NEW
    assert (await client.refresh(), client.info) == (Freshness.LOST, info(A))


async def test_an_authority_that_changed_without_notice_is_believed_only_by_the_own_tokens_signature() -> None:
    replaced = info(A, by=(NEW,))
    hub = a_hub(replaced, NEW, TOKEN)
    strange, own = (
        a_client(SimulatedNetwork({A: hub}), info(A), FOREIGN),
        a_client(SimulatedNetwork({A: hub}), info(A), TOKEN),
    )
    assert (await strange.refresh(), strange.info) == (Freshness.LOST, info(A))
    assert (await own.refresh(), own.info) == (Freshness.UPDATED, replaced)


async def test_a_stranger_in_between_changes_nothing() -> None:
    stranger = a_hub(info(A, by=(STRANGER,)), STRANGER, FOREIGN)
    client = a_client(SimulatedNetwork({A: stranger}), info(A), TOKEN)
    assert (await client.refresh(), client.info) == (Freshness.LOST, info(A))
    assert not any(request.header("Authorization") for request in stranger.requests)


@pytest.mark.parametrize("data", [None, {"kubeconfig": "nonsense"}], ids=["nothing published", "nonsense published"])
async def test_a_cluster_that_publishes_nothing_usable_is_kept(data: dict[str, str] | None) -> None:
    client = a_client(SimulatedNetwork({A: Publisher(OLD, data)}), info(A))
    assert (await client.refresh(), client.info) == (Freshness.KEPT, info(A))


async def test_the_file_is_replaced_as_a_whole_and_read_back(tmp_path: Path) -> None:
    store = ClusterInfoStore(tmp_path / "cluster-info.yaml")
    with pytest.raises(ConfigError):
        store.load()
    store.save(info(A))
    client = a_client(SimulatedNetwork({A: a_hub(info(A, B))}), store.load())
    client.save = store.save
    assert await client.refresh() == Freshness.UPDATED
    assert store.load() == info(A, B)
    assert store.path.stat().st_mode & 0o777 == 0o600
    store.path.write_text("users: [x]")
    with pytest.raises(ClusterInfoRefused):
        store.load()
