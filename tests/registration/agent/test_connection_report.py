"""An agent that is not connected says why, on the Secret of its credential, until it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector

from watchword.api.cluster import Cluster
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually

UNPLUGGED = "grpc.hub.test:443 cannot be reached"


@dataclass
class Unplugged:
    """A transport that reaches its server once it is plugged in."""

    inner: Transport
    is_plugged: Callable[[], bool]

    async def send(self, request: Request) -> Response:
        self._require()
        return await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        self._require()
        async with self.inner.stream(request) as response:
            yield response

    def _require(self) -> None:
        if not self.is_plugged():
            raise Unreachable(UNPLUGGED, maybe_processed=False)

    async def close(self) -> None:
        await self.inner.close()


def says(name: str, text: str) -> Callable[[Object | None], bool]:
    return lambda secret: text in annotations_of(secret or {}).get(name, "")


async def test_agent_of_an_unreachable_hub_notes_why_until_it_is_reached(fleet: FleetHarness) -> None:
    fleet.start_hub(AUTOMATIC)
    name, plugged = fleet.name(), list[bool]()
    connector = PlaneConnector(fleet.plane, through=lambda inner: Unplugged(inner, lambda: bool(plugged)))
    secret = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")

    fleet.start_agent(name, connector=connector)
    await eventually(fleet.client, SECRETS, secret, says(Annotation.HUB_UNREACHABLE, UNPLUGGED))
    plugged.append(True)

    await fleet.joined(name)
    await eventually(
        fleet.client, SECRETS, secret, lambda found: Annotation.HUB_UNREACHABLE not in annotations_of(found or {})
    )


async def test_agent_whose_name_belongs_to_another_cluster_notes_it(fleet: FleetHarness) -> None:
    fleet.start_hub()
    name = fleet.name()
    taken = a_cluster(name, accepted=False)
    taken["metadata"]["annotations"] = {Annotation.CLUSTER_UID: "another"}
    await fleet.client.create(MANAGED_CLUSTERS, taken)

    fleet.start_agent(name)

    secret = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    await eventually(fleet.client, SECRETS, secret, says(Annotation.NOT_REGISTERED, "join under another name"))
    assert not Cluster.read(await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))).accepted
