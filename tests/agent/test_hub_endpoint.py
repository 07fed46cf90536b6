"""Which hub endpoint an agent uses: a new configured one wins, else the hub's own moves are followed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from watchword.agent.hub_endpoint import HubEndpoint, original_server
from watchword.agent.hub_endpoint_monitor import HubEndpointMonitor
from watchword.agent.secret_data import KUBECONFIG, hub_kubeconfig
from watchword.api.http import Response
from watchword.discovery.cluster_info import ClusterInfo
from watchword.drivers.interface import SecretData
from watchword.kube.client import Client
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.transport import Transport
from watchword.pki.authority import Authority
from watchword.testing.cluster_info_server import ClusterInfoServer, FakeNetwork

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD, NEW = (Authority.make(name, now=NOW) for name in ("old", "new"))
A, B, C = "https://a:6443", "https://b:6443", "https://c:6443"


@dataclass
class Said:
    """A connector with a configurable endpoint."""

    said: ClusterEntry | None

    def entry(self) -> ClusterEntry:
        if self.said is None:
            raise ConfigError("nobody says anything")
        return self.said

    def has_bootstrap_credential(self) -> bool:
        return self.said is not None

    def joining(self) -> Transport:
        raise NotImplementedError

    def own(self, data: SecretData) -> Transport:
        del data

        async def nothing(_: object) -> Response:
            return Response(200)

        return Client.from_handler(nothing).transport


def an_entry(server: str = A, *by: Authority) -> ClusterEntry:
    return ClusterEntry(server, ca_data=b"".join(authority.certificate.pem for authority in by or (OLD,)))


def a_secret(entry: ClusterEntry) -> dict[str, bytes]:
    return {KUBECONFIG: hub_kubeconfig(entry, UserEntry())}


def info(*endpoints: str, by: tuple[Authority, ...] = (OLD,)) -> ClusterInfo:
    return ClusterInfo(endpoints, tuple(authority.certificate for authority in by))


def a_hub(published: ClusterInfo, authority: Authority = OLD) -> ClusterInfoServer:
    hub = ClusterInfoServer(authority)
    hub.publish(published)
    return hub


def test_hub_endpoint_is_the_configured_one_until_another_is_verified() -> None:
    hub = HubEndpoint(Said(an_entry()))
    assert hub.entry() == an_entry()

    assert hub.record_move(B, OLD.certificate.pem)

    assert (hub.entry().server, original_server(hub.entry())) == (B, A)
    assert not hub.record_move(B, OLD.certificate.pem)


def test_new_manual_configuration_wins() -> None:
    people = Said(an_entry())
    hub = HubEndpoint(people)
    hub.record_move(B, OLD.certificate.pem)

    people.said = an_entry(C)

    assert hub.entry() == an_entry(C)
    assert original_server(hub.entry()) == C


def test_hub_that_moved_twice_keeps_its_original_address() -> None:
    hub = HubEndpoint(Said(an_entry()))
    hub.record_move(B, OLD.certificate.pem)
    hub.record_move(C, NEW.certificate.pem)

    assert (hub.entry().server, hub.entry().ca_data, original_server(hub.entry())) == (C, NEW.certificate.pem, A)


@pytest.mark.parametrize("still_said", [True, False], ids=["people say the old place", "nobody says anything"])
async def test_after_a_restart_the_hub_is_where_it_was_found(*, still_said: bool) -> None:
    before = HubEndpoint(Said(an_entry()))
    before.record_move(B, NEW.certificate.pem)
    written = a_secret(before.entry())
    known = replace(before.entry(), rest={}) if not still_said else an_entry()

    after = HubEndpoint(Said(known))
    after.own(written)

    assert after.entry() == replace(before.entry(), rest=after.entry().rest)
    assert original_server(after.entry()) == A


async def test_a_rotation_of_the_authority_reaches_the_agent() -> None:
    hub, people = a_hub(info(A, by=(OLD, NEW))), HubEndpoint(Said(an_entry()))
    monitor = HubEndpointMonitor(people, FakeNetwork({A: hub}), Random(1))

    assert await monitor.check()

    assert people.entry().ca_data == an_entry(A, OLD, NEW).ca_data
    assert not await monitor.check()


async def test_a_hub_is_followed_when_its_address_ends() -> None:
    network = FakeNetwork({A: a_hub(info(B)), B: a_hub(info(B))})
    people = HubEndpoint(Said(an_entry()))
    monitor = HubEndpointMonitor(people, network, Random(1))
    assert not await monitor.check()  # it works where it is

    network.servers[A].up = False

    assert await monitor.check()
    assert people.entry().server == B


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(None, id="nobody says anything"),
        pytest.param(replace(an_entry(), proxy_url="http://proxy"), id="through a proxy"),
        pytest.param(replace(an_entry(), tls_server_name="hub"), id="under another name"),
        pytest.param(replace(an_entry(), insecure=True), id="without trust"),
        pytest.param(ClusterEntry(A), id="by the roots of the system"),
        pytest.param(ClusterEntry(A, ca_data=b"nonsense"), id="by nonsense"),
    ],
)
async def test_manual_configuration_is_left_unchanged(said: ClusterEntry | None) -> None:
    network = FakeNetwork({A: a_hub(info(A, by=(OLD, NEW)))})

    assert not await HubEndpointMonitor(HubEndpoint(Said(said)), network, Random(1)).check()

    assert network.servers[A].requests == []


async def test_hub_endpoint_is_checked_seldom_when_idle_and_with_backoff_when_failing() -> None:
    hub, unreachable, moves = a_hub(info(A)), asyncio.Event(), list[str]()
    monitor = HubEndpointMonitor(HubEndpoint(Said(an_entry())), FakeNetwork({A: hub}), Random(1))
    running = asyncio.create_task(monitor.run(unreachable, lambda: moves.append("moved")))
    await asyncio.sleep(timedelta(hours=10).total_seconds())
    idle = len(hub.requests)

    for _ in range(600):
        unreachable.set()
        await asyncio.sleep(1)
    running.cancel()

    assert idle <= 50
    assert 8 <= len(hub.requests) - idle <= 11
    assert moves == []
