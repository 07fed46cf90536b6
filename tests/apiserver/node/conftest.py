"""A registry with its controllers and a process node, in virtual time; containers are tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import NAMESPACES, NODES, PODS
from watchword.apiserver.access.config import AccessConfig, AccessControl, access_control_factory
from watchword.apiserver.access.pki_directory import ephemeral_access_config
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.node.model import HttpProbe, Launch, NodeSettings
from watchword.apiserver.node.node import ProcessNode
from watchword.apiserver.serving.model import Registry
from watchword.apiserver.store.memory import MemoryStore
from watchword.local.workloads import WORKLOADS
from watchword.pki.jwt import TokenSigner
from watchword.testing.virtual_time import VirtualClock


@dataclass
class TaskContainer:
    """A container that ends when a test ends it."""

    launch: Launch
    heeds_terminate: bool = True
    well: bool = True
    ended: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def terminate(self) -> None:
        if self.heeds_terminate:
            self.exits(0)

    def kill(self) -> None:
        self.exits(137)

    async def probe(self, probe_spec: HttpProbe) -> bool:
        return self.well

    def exits(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


@dataclass
class TaskRunner:
    """Records what it started; `script` may give exit codes for the containers, in order."""

    started: list[TaskContainer] = field(default_factory=list)
    script: list[int] = field(default_factory=list)
    make: Callable[[Launch], TaskContainer] = TaskContainer

    async def start(self, launch: Launch) -> TaskContainer:
        container = self.make(launch)
        self.started.append(container)
        if self.script:
            container.exits(self.script.pop(0))
        return container


class NodeHarness:
    """What tests arrange and look at."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.ahead = timedelta(0)  # of the loop's time
        self.runner = TaskRunner()
        self.settings = NodeSettings(folder, "127.0.0.1", 6443, WORKLOADS)
        self._rules: AccessConfig = ephemeral_access_config(self.now)
        self._plane = ControlPlane(MemoryStore(), self.now, self._compose)

    def _compose(self, registry: Registry) -> AccessControl:
        return access_control_factory(self._rules, now=self.now, entropy=os.urandom)(registry)

    def now(self) -> datetime:
        return self.clock.now() + self.ahead

    @property
    def registry(self) -> Registry:
        return self._plane.registry

    async def start(self) -> None:
        await self._plane.start()
        await self.has(NAMESPACES, "apps")
        await self.start_node()

    async def start_node(self) -> None:
        issuer = TokenIssuer(self._rules.issuer, TokenSigner(self._rules.token_keys.signing))
        self.node = ProcessNode(self.registry, issuer, self._rules.audiences, self.now, self.settings, self.runner)
        await self.node.start()

    async def stop(self) -> None:
        await self.node.stop()
        await self._plane.stop()

    async def has(self, resource: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        created = await self.registry.create(resource, resource.manifest(ObjectKey(namespace, name), **fields))
        await self.settles()
        return created

    async def settles(self, seconds: float = 1.0) -> None:
        """Let virtual time pass, and everything happen that is due in it."""
        await asyncio.sleep(seconds)

    def get(self, resource: Resource, name: str, namespace: str = "apps") -> Object:
        found = self.registry.get(resource, ObjectKey(namespace, name))
        assert found is not None
        return found

    def get_node_metadata(self) -> Object:
        """Return something in `apps` that can own a pod."""
        node = self.get(NODES, "watchword", "")["metadata"]
        return {"name": node["name"], "uid": node["uid"], "namespace": "apps"}

    def pods(self, namespace: str = "apps") -> list[Object]:
        return self.registry.list(PODS, namespace)

    async def changes(self, resource: Resource, name: str, change: Callable[[Object], None]) -> None:
        found = self.get(resource, name)
        change(found)
        await self.registry.update(resource, found)
        await self.settles()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[NodeHarness]:
    found = NodeHarness(tmp_path / "pods")
    await found.start()
    yield found
    await found.stop()


def a_template(*arguments: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "watchword", "args": list(arguments or ("hub",))}
    container.update(spec.pop("container", {}))
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container], **spec}}
