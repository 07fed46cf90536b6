"""Which credential the agent shows to the hub, whatever happened to the write that stored it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from watchword.agent.hub_connection import HubConnection
from watchword.agent.hub_session import HubSession
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.drivers.interface import NewCredential, SecretData, ValidCredential
from watchword.kube.in_process_transport import InProcessTransport
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.transport import Transport
from watchword.runtime.virtual_time import VirtualClock

SECRET = ObjectKey("agent", "hub-kubeconfig-secret")
OLD: SecretData = {"tls.crt": b"old", "kubeconfig": b"here"}


class UnheardHub:
    """A cache of a hub that has not sent anything yet."""

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        return None

    def list(self, resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        return ()

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]:
        return ()


@dataclass
class NotingConnector:
    """Notes which credential each transport was made of."""

    used: list[SecretData] = field(default_factory=list)

    def entry(self) -> ClusterEntry:
        return ClusterEntry("https://hub.test")

    def has_bootstrap_credential(self) -> bool:
        return False

    def joining(self) -> Transport:
        raise AssertionError("there is nothing to join with")

    def own(self, data: SecretData) -> Transport:
        self.used.append(data)
        return InProcessTransport(answer_nothing)


async def answer_nothing(_: Request) -> Response:
    return Response(503)


@pytest.mark.parametrize(
    ("stored", "switches"),
    [
        pytest.param(OLD, 1, id="the same credential is not taken up twice"),
        pytest.param({**OLD, "tls.crt": b"new"}, 2, id="a credential whose storing nobody confirmed is taken up"),
        pytest.param({**OLD, "kubeconfig": b"there"}, 2, id="a hub that moved is followed"),
    ],
)
async def test_the_agent_uses_what_its_secret_holds(stored: SecretData, switches: int) -> None:
    clock, connector = VirtualClock(asyncio.get_running_loop()), NotingConnector()
    session = HubSession(HubConnection(), connector, UnheardHub(), "edge-1", clock)
    renew, end = clock.now() + timedelta(days=2), clock.now() + timedelta(days=3)
    await session.credential_changed(SECRET, NewCredential(OLD, clock.now(), end, renew), OLD)

    await session.credential_changed(SECRET, ValidCredential(renew, end), stored)

    assert len(connector.used) == switches
    assert connector.used[-1] == stored
