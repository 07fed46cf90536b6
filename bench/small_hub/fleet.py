"""Plays the agents of many clusters on one hub: they report their status and renew their leases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson
from msgspec.structs import asdict

from bench.planes.loads import JSON, MERGE
from bench.planes.servers import Server
from bench.small_hub.requests import CONNECTIONS, RequestQueue, running, watch
from bench.workloads.hub import an_accepted_cluster
from watchword.api.conditions import Condition, is_true
from watchword.api.meta import Object
from watchword.api.names import CLUSTER_LEASE, ConditionType
from watchword.api.time import rfc3339, rfc3339_micro

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
LEASES = "/apis/coordination.k8s.io/v1"
JSON_PATCH = "application/json-patch+json"
SETTLED = (ConditionType.HUB_ACCEPTED, ConditionType.JOINED, ConditionType.AVAILABLE)
REPORTED = (
    Condition.true(ConditionType.JOINED, "ManagedClusterJoined", "the cluster has joined this hub"),
    Condition.true(ConditionType.AVAILABLE, "ManagedClusterAvailable", "the cluster is available"),
)
PATIENCE = 900.0


@dataclass
class PlayedFleet:
    """The clusters of one hub, as their agents and the API server show them."""

    server: Server
    size: int
    requests: RequestQueue = field(default_factory=RequestQueue)
    settled: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        """Watch and send for as long as the context is open; a request that fails ends it."""
        watches = (
            self._follow(CLUSTERS, self._cluster_changed),
            self._follow("/api/v1/namespaces", self._namespace_changed),
        )
        senders = (self.requests.send(self.server) for _ in range(CONNECTIONS))
        async with running(*watches, *senders):
            yield

    async def create(self) -> float:
        """Create all clusters; return the seconds until every one of them is settled."""
        for name in self._names():
            self.requests.put(("POST", CLUSTERS, JSON, orjson.dumps(an_accepted_cluster(name))))
        return await self._timed(lambda: len(self.settled) == self.size)

    async def renew(self, seconds: float) -> int:
        """Renew leases at the rate of clusters that renew every minute; return how many were renewed."""
        pause, begin, count = 60.0 / self.size, time.monotonic(), 0
        names = self._names()
        while (due := begin + count * pause) < begin + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.requests.put(renewal(names[count % self.size]))
            count += 1
        await self.requests.waiting.join()
        return count

    async def delete(self) -> float:
        """Delete all clusters; return the seconds until the last cluster and the last namespace are gone."""
        for name in self._names():
            self.requests.put(("DELETE", f"{CLUSTERS}/{name}", "", b""))
        return await self._timed(lambda: not self.known and not self.namespaces)

    def _names(self) -> list[str]:
        return [f"small-{number:05d}" for number in range(self.size)]

    async def _timed(self, is_done: Callable[[], bool]) -> float:
        begin = time.monotonic()
        await self._until(is_done)
        return time.monotonic() - begin

    async def _until(self, is_done: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_done():
                self.changed.clear()
                await self.changed.wait()

    async def _follow(self, path: str, take: Callable[[str, Object], None]) -> None:
        async with aclosing(watch(self.server, path)) as events:
            async for kind, obj in events:
                take(kind, obj)
                self.changed.set()

    def _cluster_changed(self, kind: str, cluster: Object) -> None:
        name = cluster["metadata"]["name"]
        if kind == "DELETED":
            self.known.discard(name)
            return
        self.known.add(name)
        if all(is_true(cluster, condition) for condition in SETTLED):
            self.settled.add(name)
        if name not in self.joined and is_true(cluster, ConditionType.HUB_ACCEPTED):
            self.joined.add(name)
            self.requests.put(report(name))
            self.requests.put(renewal(name))

    def _namespace_changed(self, kind: str, namespace: Object) -> None:
        name = namespace["metadata"]["name"]
        if kind == "DELETED":
            self.namespaces.discard(name)
        elif name.startswith("small-"):
            self.namespaces.add(name)


def report(name: str) -> tuple[str, str, str, bytes]:
    """Return the request by which an agent reports that it has joined."""
    now = rfc3339(datetime.now(UTC))
    rows = [{**asdict(condition), "lastTransitionTime": now} for condition in REPORTED]
    steps: list[Object] = [{"op": "add", "path": "/status/conditions/-", "value": row} for row in rows]
    steps.append({"op": "add", "path": "/status/version", "value": {"kubernetes": "v1.35.4"}})
    steps.append({"op": "add", "path": "/status/allocatable", "value": {"cpu": "16", "memory": "64Gi"}})
    steps.append({"op": "add", "path": "/status/capacity", "value": {"cpu": "16", "memory": "64Gi"}})
    return "PATCH", f"{CLUSTERS}/{name}/status?fieldManager=watchword-agent", JSON_PATCH, orjson.dumps(steps)


def renewal(name: str) -> tuple[str, str, str, bytes]:
    """Return the request by which an agent renews its lease."""
    spec = {"spec": {"renewTime": rfc3339_micro(datetime.now(UTC))}}
    path = f"{LEASES}/namespaces/{name}/leases/{CLUSTER_LEASE}?fieldManager=watchword-agent"
    return "PATCH", path, MERGE, orjson.dumps(spec)
