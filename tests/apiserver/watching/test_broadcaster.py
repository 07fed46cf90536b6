"""A change is delivered to the watchers that may select it, and to no other."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from watchword.apiserver.serving.watch import LONGEST_PAUSE, Watch, WatchBroadcaster
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import StoreChange, StoreEvent

LEASES, CLUSTERS = "leases.coordination.k8s.io", "managedclusters.cluster.open-cluster-management.io"


class Receiver:
    """Notes what it receives."""

    def __init__(self, namespace: str = "", path: str = "") -> None:
        self.namespace, self.path = namespace, path
        self.received: list[str] = []

    def receive(self, event: StoreEvent) -> None:
        """Note the path of a change."""
        self.received.append(event.record.path)


@pytest.mark.parametrize(
    ("receiver", "expected"),
    [
        pytest.param(Receiver(), ["edge-1/lease", "edge-2/lease"], id="everything"),
        pytest.param(Receiver("edge-1"), ["edge-1/lease"], id="one namespace"),
        pytest.param(Receiver("edge-1", "edge-1/lease"), ["edge-1/lease"], id="one object"),
        pytest.param(Receiver("edge-1", "edge-1/another"), [], id="another object of the namespace"),
        pytest.param(Receiver("edge-3"), [], id="another namespace"),
    ],
)
async def test_change_of_a_namespaced_object(receiver: Receiver, expected: list[str]) -> None:
    store = MemoryStore()
    broadcaster = WatchBroadcaster(store)
    broadcaster.add(LEASES, receiver)

    for path in ("edge-1/lease", "edge-2/lease"):
        await store.write(StoreChange(LEASES, path, 0, lambda _: b"{}"))

    assert receiver.received == expected


async def test_change_of_one_object_does_not_reach_the_watchers_of_others() -> None:
    store = MemoryStore()
    broadcaster = WatchBroadcaster(store)
    receivers = [Receiver(path=f"edge-{number}") for number in range(100)]
    for receiver in receivers:
        broadcaster.add(CLUSTERS, receiver)

    await store.write(StoreChange(CLUSTERS, "edge-7", 0, lambda _: b"{}"))

    assert [receiver.path for receiver in receivers if receiver.received] == ["edge-7"]


async def test_removed_receiver_receives_nothing_more() -> None:
    store = MemoryStore()
    broadcaster, receiver = WatchBroadcaster(store), Receiver(path="edge-1")
    broadcaster.add(CLUSTERS, receiver)

    broadcaster.remove(CLUSTERS, receiver)
    broadcaster.remove(CLUSTERS, receiver)
    await store.write(StoreChange(CLUSTERS, "edge-1", 0, lambda _: b"{}"))

    assert (receiver.received, broadcaster.count()) == ([], 0)


class SlowWatch:
    """Notes when it pushes; each push takes some seconds of the processor's time."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.spent = seconds, 0.0
        self.pushed: list[float] = []

    def push_queued(self) -> None:
        """Spend the time."""
        self.spent += self.seconds
        self.pushed.append(asyncio.get_running_loop().time())


@pytest.mark.parametrize(
    ("seconds", "pause"),
    [
        pytest.param(0.0004, 0.0, id="few watchers: at once"),
        pytest.param(0.004, 0.008, id="many: twice as long as the push took"),
        pytest.param(4.0, LONGEST_PAUSE, id="too many: no longer than a bound"),
    ],
)
async def test_a_push_begins_after_a_pause_that_the_last_one_decides(seconds: float, pause: float) -> None:
    slow = SlowWatch(seconds)
    broadcaster, watch = WatchBroadcaster(MemoryStore(), lambda: slow.spent), cast("Watch", slow)
    broadcaster.push_soon(watch)
    await asyncio.sleep(0)

    broadcaster.push_soon(watch)
    await asyncio.sleep(1.0)

    first, second = slow.pushed
    assert second - first == pytest.approx(pause)
