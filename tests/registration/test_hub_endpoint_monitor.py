"""A hub that changes its CA or its address keeps its members, without a change on any cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

import pytest
from tests.helpers.cluster_info_server import ClusterInfoServer, FakeNetwork
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import LEASES, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import KUBECONFIG
from watchword.discovery.cluster_info import ClusterInfo
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.pki.authority import Authority
from watchword.processes.agent import AgentRuntime
from watchword.registration.agent.hub_endpoint import original_server
from watchword.registration.agent.options import AgentOptions
from watchword.testing.eventually import eventually

pytestmark = pytest.mark.planes("embedded")  # a quarter of an hour has to pass

OLD, NEW = (Authority.make(name, now=datetime(2026, 1, 1, tzinfo=UTC)) for name in ("old", "new"))
HERE, THERE = "https://here.test:6443", "https://there.test:6443"


@dataclass
class BelievingConnector(PlaneConnector):
    """Reaches the hub of the test, with a CA of ours."""

    def entry(self) -> ClusterEntry:
        return ClusterEntry(HERE, ca_data=OLD.certificate.pem)


def start_agent(fleet: FleetHarness, name: str, network: FakeNetwork) -> None:
    runtime = AgentRuntime(
        clock=fleet.plane.clock,
        random=Random(1),
        connector=BelievingConnector(fleet.plane),
        client_factory=network,
        controllers=(),
    )
    fleet.run_agent(AgentOptions(name, hub_secret=f"hub-{name}", elect=False), runtime)


def info(server: str, *by: Authority) -> ClusterInfo:
    return ClusterInfo((server,), tuple(authority.certificate for authority in by))


def a_hub(published: ClusterInfo) -> ClusterInfoServer:
    hub = ClusterInfoServer(OLD)
    hub.publish(published)
    return hub


async def stored(fleet: FleetHarness, name: str, is_so: Callable[[ClusterEntry], bool]) -> ClusterEntry:
    """Wait until the kubeconfig in the agent's Secret has this hub."""

    def entry(secret: Object | None) -> ClusterEntry:
        return parse_kubeconfig(decode_data(secret)[KUBECONFIG]).choose().cluster

    key = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    return entry(await eventually(fleet.client, SECRETS, key, lambda obj: is_so(entry(obj)), within=3600))


async def test_a_new_authority_reaches_the_secret_before_the_hub_uses_it(fleet: FleetHarness) -> None:
    name, network = fleet.name(), FakeNetwork({HERE: a_hub(info(HERE, OLD))})
    fleet.start_hub(AUTOMATIC)
    start_agent(fleet, name, network)
    await fleet.joined(name)

    network.servers[HERE].publish(info(HERE, OLD, NEW))

    entry = await stored(fleet, name, lambda entry: NEW.certificate.pem in entry.ca_data)
    assert (entry.server, original_server(entry)) == (HERE, HERE)
    assert OLD.certificate.pem in entry.ca_data


async def test_a_member_finds_its_hub_where_it_has_moved(fleet: FleetHarness) -> None:
    name, moved = fleet.name(), info(THERE, OLD)
    network = FakeNetwork({HERE: a_hub(moved), THERE: a_hub(moved)})
    fleet.start_hub(AUTOMATIC)
    start_agent(fleet, name, network)
    await fleet.joined(name)
    await stored(fleet, name, lambda entry: entry.server == HERE and bool(network.servers[HERE].requests))

    network.servers[HERE].up = False

    entry = await stored(fleet, name, lambda entry: entry.server == THERE)
    assert original_server(entry) == HERE
    before = await fleet.client.get(LEASES, ObjectKey(name, "managed-cluster-lease"))
    await eventually(fleet.client, LEASES, ObjectKey.of(before), lambda obj: obj != before, within=120)
