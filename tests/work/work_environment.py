"""One managed cluster with its hub's works, over one control plane that plays both."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from tests.helpers.fleet import PlaneConnector
from tests.helpers.plane_image import install_once

from watchword.api.crds import MANAGED_CRDS
from watchword.api.crds.work import MANIFEST_WORK
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import APPLIED_MANIFEST_WORKS, CONFIG_MAPS, MANIFEST_WORKS
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport
from watchword.processes.agent import make_work_controllers
from watchword.registration.agent.hub_endpoint import HubEndpoint
from watchword.registration.agent.options import AgentOptions
from watchword.registration.hub.installation import FIELD_MANAGER
from watchword.runtime.api_server_connection import HUB
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.manifests import establish_crds
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass
class RecordingTransport:
    """The way to a server: remembers every request, and is cut for good after so many writes."""

    inner: Transport
    log: list[Request]
    cut_after: int | None = None
    is_cut: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, request: Request) -> Response:
        if self.is_cut.is_set():
            raise Unreachable("the process is dead", maybe_processed=False)
        self.log.append(request)
        response = await self.inner.send(request)
        writes = sum(one.method in WRITES and not is_question(one) for one in self.log)
        if self.cut_after is not None and writes >= self.cut_after:
            self.is_cut.set()
            raise Unreachable("the process died before it heard the answer")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        self.log.append(request)
        return self.inner.stream(request)

    async def close(self) -> None:
        return None


def is_question(request: Request) -> bool:
    return "subjectaccessreviews" in request.path or bool(request.parameter("dryRun"))


@dataclass
class WorkEnvironment:
    """What a test does with works."""

    plane: Plane
    cluster: str  # the namespace of the works on the hub
    namespace: str  # where the objects go
    server: str
    identity: str  # of the agent
    log: list[Request] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    lines: list[RecordingTransport] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.plane.client()

    def start(
        self,
        *,
        client: Client | None = None,
        hub: Client | None = None,
        cut_after: int | None = None,
        **options: Any,
    ) -> None:
        """Run the agent's work, as these clients or as the administrator."""
        as_whom = client or self.client
        on_hub = hub or as_whom
        manager = Manager(ManagerOptions("watchword.dev/test", "one"), clock=self.plane.clock, random=Random(1))
        lines = self.lines = [RecordingTransport(one.transport, self.log, cut_after) for one in (as_whom, on_hub)]
        for line in lines:
            line.is_cut = lines[0].is_cut
        options_of_agent = AgentOptions(self.cluster, namespace=self.identity, **options)
        manager.connect(on_hub.over(lines[1]), name=HUB)
        manager.connect(as_whom.over(lines[0]))
        endpoint = HubEndpoint(PlaneConnector(self.plane, server=self.server))
        manager.add(*make_work_controllers(options_of_agent, manager, endpoint, Random(1)))
        self.task = asyncio.create_task(manager.run())

    async def stop(self) -> None:
        """End the agent as a kill would."""
        if self.task is not None:
            if self.task.done():
                self.task.result()
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    async def has(self, name: str, *manifests: Any, **spec: Any) -> Object:
        """Hand a work to the cluster."""
        body = MANIFEST_WORKS.manifest(
            ObjectKey(self.cluster, name), spec={"workload": {"manifests": list(manifests)}, **spec}
        )
        return await self.client.create(MANIFEST_WORKS, body)

    async def changes(self, name: str, *manifests: Any, **spec: Any) -> Object:
        """Replace the manifests of a work."""
        patch = {"spec": {"workload": {"manifests": list(manifests)}, **spec}}
        return await self.client.patch(MANIFEST_WORKS, ObjectKey(self.cluster, name), patch)

    async def removes(self, name: str) -> None:
        """Delete a work and wait until it is gone."""
        key = ObjectKey(self.cluster, name)
        await self.client.delete(MANIFEST_WORKS, key)
        await eventually(self.client, MANIFEST_WORKS, key, is_gone, within=60)

    async def says(self, name: str, type_: str, status: str, *, within: float = 60) -> Object:
        """Wait until a work has the condition for its present generation."""

        def is_said(work: Object | None) -> bool:
            rows = ((work or {}).get("status") or {}).get("conditions") or []
            return any(
                row["type"] == type_
                and row["status"] == status
                and row.get("observedGeneration") == (work or {})["metadata"]["generation"]
                for row in rows
            )

        return await eventually(self.client, MANIFEST_WORKS, ObjectKey(self.cluster, name), is_said, within=within)

    async def applied(self, name: str) -> Object:
        """Wait until a work's current generation is applied."""
        return await self.says(name, "Applied", "True")

    async def until(
        self, name: str, is_so: Callable[[Object], bool], resource: Resource = CONFIG_MAPS, *, within: float = 60
    ) -> Object:
        """Wait until an object in the cluster's namespace is so."""
        key = ObjectKey(self.namespace, name) if resource.namespaced else ObjectKey.cluster(name)
        return await eventually(self.client, resource, key, lambda obj: obj is not None and is_so(obj), within=within)

    async def find(self, name: str, resource: Resource = CONFIG_MAPS) -> Object | None:
        """Return an object in the cluster's namespace."""
        return await self.client.find(resource, ObjectKey(self.namespace, name))

    def record_key(self, work: str) -> ObjectKey:
        return ObjectKey.cluster(f"{hashlib.sha256(self.server.encode()).hexdigest()}-{work}")

    async def record(self, work: str) -> Object | None:
        return await self.client.find(APPLIED_MANIFEST_WORKS, self.record_key(work))

    def config_map(self, name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
        """Return a manifest."""
        return CONFIG_MAPS.manifest(ObjectKey(self.namespace, name), metadata=metadata, data=data or {"a": "1"})

    def writes(self) -> list[str]:
        """Return what was written so far: method and path, questions left out."""
        return [
            f"{one.method} {one.path.rpartition('/')[2]}"
            for one in self.log
            if one.method in WRITES and not is_question(one)
        ]


@asynccontextmanager
async def open_work_environment(plane: Plane) -> AsyncIterator[WorkEnvironment]:
    """Prepare a control plane; whatever is left of the works ends with the context."""
    definitions = (MANIFEST_WORK, *MANAGED_CRDS)
    await install_once(
        plane, "kinds of works", partial(establish_crds, plane.client(), definitions, manager=FIELD_MANAGER)
    )
    cluster, namespace = await plane.namespace("edge"), await plane.namespace("workload")
    async with work_environment_of(plane, cluster, namespace) as site:
        yield site


@asynccontextmanager
async def work_environment_of(plane: Plane, cluster: str, namespace: str) -> AsyncIterator[WorkEnvironment]:
    """The works of a cluster that is there already."""
    site = WorkEnvironment(plane, cluster, namespace, f"https://{cluster}.test:6443", f"agent-of-{cluster}")
    try:
        yield site
    finally:
        await site.stop()
        await _clear(site)


async def _clear(site: WorkEnvironment) -> None:
    """Leave nothing behind that only an agent could remove."""
    no_finalizers = {"metadata": {"finalizers": None}}
    for work in (await site.client.list(MANIFEST_WORKS, namespace=site.cluster)).items:
        await site.client.patch(MANIFEST_WORKS, ObjectKey.of(work), no_finalizers)
    for record in (await site.client.list(APPLIED_MANIFEST_WORKS)).items:
        if record["spec"].get("agentID", "").startswith(site.identity):
            await site.client.patch(APPLIED_MANIFEST_WORKS, ObjectKey.of(record), no_finalizers)
            await site.client.delete(APPLIED_MANIFEST_WORKS, ObjectKey.of(record))
