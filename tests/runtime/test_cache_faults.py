"""Whatever happens between server and cache, the cache ends up equal to the server's list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from random import Random

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults
from tests.helpers.memory_api import MemoryApi

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.transport import InProcessTransport
from watchword.kube.watch import Bookmark, ObjectChange, Snapshot, WatchOptions, WatchUpdate
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Informer, Reduction, WatchScope
from watchword.testing.virtual_time import run_virtual


@dataclass
class Server:
    """The history of a collection, with state and events of any revision."""

    history: list[ObjectChange] = field(default_factory=list)

    def write(self, name: str) -> bytes:
        change = "MODIFIED" if name in self.state(len(self.history)) else "ADDED"
        return self._record(change, name)

    def delete(self, name: str) -> None:
        if name in self.state(len(self.history)):
            self._record("DELETED", name)

    def state(self, revision: int) -> dict[str, bytes]:
        objects: dict[str, bytes] = {}
        for change in self.history[:revision]:
            name = orjson.loads(change.raw)["metadata"]["name"]
            objects.pop(name, None)
            if change.type != "DELETED":
                objects[name] = change.raw
        return objects

    def snapshot(self, revision: int) -> Snapshot:
        return Snapshot(list(self.state(revision).values()), str(revision))

    def _record(self, kind: str, name: str) -> bytes:
        version = str(len(self.history) + 1)
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}
        raw = orjson.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"v": version}})
        self.history.append(ObjectChange(kind, raw, version))
        return raw


async def follow_nothing(resource: Resource, scope: WatchScope, reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    for version in tuple[str, ...]():
        yield Bookmark(version)


class FaultScript:
    """One connection between a server and an informer on which everything goes wrong."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.server = Server()
        self.cache = Cache(follow_nothing)
        self.informer: Informer = self.cache.informer(SECRETS, WatchScope())
        self.answers: list[bytes] = []
        self.heard: dict[ObjectKey, bytes] = {}
        self.informer.add_handler(lambda delta: self._hear(delta.key, delta.new_raw))
        self.at = 0
        self.relist()

    def _hear(self, key: ObjectKey, raw: bytes | None) -> None:
        self.heard.pop(key, None)
        if raw is not None:
            self.heard[key] = raw

    def write(self) -> None:
        self.server.write(self.random.choice("abc"))

    def own_write(self) -> None:
        self.answers.append(self.server.write(self.random.choice("abc")))

    def delete(self) -> None:
        self.server.delete(self.random.choice("abc"))

    def late_answer(self) -> None:
        if self.answers:
            self.cache.observe_write(self.answers.pop(self.random.randrange(len(self.answers))))

    def deliver(self) -> None:
        if self.at < len(self.server.history):
            self.informer.handle_update(self.server.history[self.at])
            self.at += 1

    def deliver_in_the_wrong_order(self) -> None:
        if self.at + 1 < len(self.server.history):
            self.informer.handle_update(self.server.history[self.at + 1])
            self.informer.handle_update(self.server.history[self.at])
            self.at += 2

    def replay(self) -> None:
        self.at = max(int(self.informer.version) - self.random.randrange(4), 0)

    def heartbeat(self) -> None:
        if self.at == len(self.server.history):
            self.informer.handle_update(Bookmark(str(self.at)))

    def relist(self) -> None:
        self.at = len(self.server.history)
        self.informer.handle_update(self.server.snapshot(self.at))

    def relist_from_a_server_that_is_behind(self) -> None:
        self.at = self.random.randint(0, len(self.server.history))
        self.informer.handle_update(self.server.snapshot(self.at))

    def settle(self) -> None:
        while self.at < len(self.server.history):
            self.deliver()


STEPS = [name for name in vars(FaultScript) if not name.startswith("_") and name != "settle"]


@settings(max_examples=60)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=60), seed=st.integers(0, 2**32))
def test_cache_equals_the_servers_list_after_any_faults(steps: list[str], seed: int) -> None:
    async def main() -> None:
        problem = FaultScript(Random(seed))
        for step in steps:
            getattr(problem, step)()
        problem.settle()

        expected = {name: orjson.loads(raw) for name, raw in problem.server.state(len(problem.server.history)).items()}
        assert {key.name: obj for key, obj in problem.informer.store.select()} == expected
        assert {key.name: orjson.loads(raw) for key, raw in problem.heard.items()} == expected

    run_virtual(main())


ROUGH = FaultPlan(
    *(0.1, 0.1, 0.1, 0.2, 0.05, 0.3),
    watch=WatchFaults(drop=0.1, cut=0.1, delay=0.2, duplicate=0.1, reorder=0.1, stall=0.05, expire=0.05),
)


async def cache_after_faults(random: Random) -> tuple[dict[ObjectKey, Object], dict[ObjectKey, Object]]:
    """Write at random while everything between server and cache fails; return what each holds in the end."""
    api = MemoryApi()
    weather = FaultyTransport(InProcessTransport(api.handle), ROUGH, random)
    cache = Cache.of(Client(weather, random=random), WatchOptions(random=random))
    informer = cache.informer(SECRETS)
    running = asyncio.create_task(cache.run())
    for _ in range(60):
        key = ObjectKey("ns", random.choice("abcd"))
        if random.random() < 0.3:
            api.remove(SECRETS.path(key))
        else:
            api.put(SECRETS.path(key), SECRETS.manifest(key))
        await asyncio.sleep(random.choice([0, 0, 1, 30, 300]))
    weather.plan = FaultPlan()
    await asyncio.sleep(1800)
    running.cancel()
    return dict(informer.store.select()), {ObjectKey.of(obj): obj for obj in api.objects.values()}


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_the_cache_equals_the_server_after_a_rough_passage_over_the_whole_client(seed: int) -> None:
    cached, stored = run_virtual(cache_after_faults(Random(seed)), seed=seed)

    assert cached == stored
