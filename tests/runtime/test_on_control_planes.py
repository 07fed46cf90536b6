"""The runtime on complete control planes behaves as it does in memory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from watchword.api.conditions import Condition, is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, EVENTS, LEASES, NAMESPACES
from watchword.kube.errors import Conflict
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Informer, WatchScope
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome
from watchword.runtime.status import StatusChange
from watchword.testing.builders import a_config_map
from watchword.testing.eventually import eventually, eventually_all
from watchword.testing.plane import Plane

REPLICA = Path(__file__).with_name("replica.py")


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def version_in(informer: Informer, key: ObjectKey, expected: str) -> None:
    await informer.wait_for(expected)
    obj = informer.store.get(key)
    assert obj is not None
    assert obj["metadata"]["resourceVersion"] == expected


async def test_the_cache_follows_a_collection(plane: Plane) -> None:
    client, namespace = plane.client(), await plane.namespace()
    key = ObjectKey(namespace, "a")
    created = await client.create(CONFIG_MAPS, a_config_map("a", namespace=namespace))
    cache = Cache.of(client)
    informer = cache.informer(CONFIG_MAPS, WatchScope(namespace=namespace))
    async with running(cache.run()):
        await cache.sync()
        await version_in(informer, key, created["metadata"]["resourceVersion"])

        changed = await client.patch(CONFIG_MAPS, key, {"data": {"x": "1"}})
        await version_in(informer, key, changed["metadata"]["resourceVersion"])

        obj = informer.store.get(key)
        assert obj is not None
        assert "managedFields" not in obj["metadata"]


async def test_cache_survives_a_restart_of_its_server(private_plane: Plane) -> None:
    client, namespace = private_plane.client(), await private_plane.namespace()
    cache = Cache.of(client)
    informer = cache.informer(CONFIG_MAPS, WatchScope(namespace=namespace))
    async with running(cache.run()):
        await cache.sync()

        await private_plane.restart(kill=True)
        created = await client.create(CONFIG_MAPS, a_config_map("after", namespace=namespace))

        async with asyncio.timeout(60):
            await version_in(informer, ObjectKey(namespace, "after"), created["metadata"]["resourceVersion"])


class Labeller:
    """Labels every ConfigMap, and records an event about it."""

    def __init__(self, manager: Manager, plane: Plane, namespace: str) -> None:
        self.hub = manager.connect(plane.client())
        self.hub.cache.informer(CONFIG_MAPS, WatchScope(namespace=namespace))

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(CONFIG_MAPS, key)
        if found is not None and "seen" not in found["metadata"].get("labels", {}):
            await self.hub.client.patch(CONFIG_MAPS, key, {"metadata": {"labels": {"seen": "yes"}}})
            self.hub.events.normal(found, "Labelled", "has been seen", action="Label")
        return Done()


def is_seen(obj: Object | None) -> bool:
    return obj is not None and obj["metadata"].get("labels", {}).get("seen") == "yes"


async def test_manager_reconciles_leads_and_records_events(plane: Plane) -> None:
    client, namespace = plane.client(), await plane.namespace()
    lease = ObjectKey(namespace, "leader")
    options = ManagerOptions("watchword.io/test", "one", lease=lease)
    manager = Manager(options, clock=plane.clock, random=Random(1))
    manager.add(ControllerSpec("labeller", CONFIG_MAPS, Labeller(manager, plane, namespace)))
    stop = asyncio.Event()
    task = asyncio.create_task(manager.run(stop))

    await client.create(CONFIG_MAPS, a_config_map("a", namespace=namespace))
    await eventually(client, CONFIG_MAPS, ObjectKey(namespace, "a"), is_seen)
    events = await eventually_all(client, EVENTS, bool, namespace=namespace)
    stop.set()
    await task

    assert [event["reason"] for event in events.values()] == ["Labelled"]
    assert (await client.get(LEASES, lease))["spec"].get("holderIdentity", "") == ""


async def test_a_condition_is_never_lost_to_a_stale_read(plane: Plane) -> None:
    manager = Manager(ManagerOptions("watchword.io/test", "one"), clock=plane.clock, random=Random(1))
    hub = manager.connect(plane.client())
    stale = await hub.client.get(NAMESPACES, ObjectKey.cluster(await plane.namespace()))
    await hub.status.set_condition(NAMESPACES, stale, Condition.true("First", "Said"))

    now = await hub.status.set_condition(NAMESPACES, stale, Condition.true("Second", "Said"))

    assert is_true(now, "First")
    assert is_true(now, "Second")


async def test_rows_are_written_whatever_else_changed_and_not_when_they_did(plane: Plane) -> None:
    manager = Manager(ManagerOptions("watchword.io/test", "one"), clock=plane.clock, random=Random(1))
    hub = manager.connect(plane.client())
    created = await hub.client.get(NAMESPACES, ObjectKey.cluster(await plane.namespace()))
    rows = (Condition.false("Ours", "Waiting"), Condition.false("Theirs", "Waiting"))
    stale = await hub.status.set_conditions(NAMESPACES, created, rows)
    await hub.status.set_condition(NAMESPACES, stale, Condition.true("Theirs", "Said"))

    ours = StatusChange(conditions=(Condition.true("Ours", "Said"),))
    now = await hub.status.write_rows_if_unchanged(NAMESPACES, stale, ours)

    assert is_true(now, "Ours")
    assert is_true(now, "Theirs")
    with pytest.raises(Conflict):
        await hub.status.write_rows_if_unchanged(NAMESPACES, stale, StatusChange(conditions=(rows[1], rows[0])))
    with pytest.raises(Conflict):
        await hub.status.write_rows_if_unchanged(NAMESPACES, stale, StatusChange(without=("Ours",)))


async def test_a_status_is_not_written_onto_a_successor(plane: Plane) -> None:
    manager = Manager(ManagerOptions("watchword.io/test", "one"), clock=plane.clock, random=Random(1))
    hub = manager.connect(plane.client())
    namespace = await hub.client.get(NAMESPACES, ObjectKey.cluster(await plane.namespace()))
    predecessor = {"uid": "00000000-0000-0000-0000-000000000000", "resourceVersion": "1"}
    gone = {**namespace, "metadata": {**namespace["metadata"], **predecessor}}

    with pytest.raises(Conflict):
        await hub.status.set_condition(NAMESPACES, gone, Condition.true("First", "Said"))


class Replica:
    """One process that prints the revisions that it writes while it leads: the server orders them."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.writes: list[int] = []
        self.leading, self.standing_by = asyncio.Event(), asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, plane: Plane, namespace: str, name: str) -> Replica:
        command = [sys.executable, str(REPLICA), str(plane.kubeconfig), namespace, name]
        return cls(
            await asyncio.create_subprocess_exec(*command, stdout=PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        )

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            told = json.loads(line)
            self.standing_by.set()
            if "wrote" in told:
                self.writes.append(told["wrote"])
                self.leading.set()

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._reading


@pytest.mark.planes("kube-apiserver")
async def test_when_the_leader_is_killed_the_other_takes_over_and_they_never_overlap(plane: Plane) -> None:
    namespace = await plane.namespace()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(a_replica(plane, namespace, "first"))
        await first.leading.wait()
        second = await stack.enter_async_context(a_replica(plane, namespace, "second"))
        await second.standing_by.wait()

        await first.kill()
        await second.leading.wait()

    assert max(first.writes) < min(second.writes)


@asynccontextmanager
async def a_replica(plane: Plane, namespace: str, name: str) -> AsyncIterator[Replica]:
    replica = await Replica.start(plane, namespace, name)
    try:
        yield replica
    finally:
        await replica.kill()
