"""The work queue: each key once, none lost, none processed twice at the same time."""

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from random import Random
from typing import Generic, TypeVar

from msgspec import Struct

from watchword.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class DelayQueue(Generic[K]):
    """One instant per delayed key, and one timer of the loop for the earliest of them."""

    def __init__(self, due: Callable[[K], None]) -> None:
        self._due = due
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._serial = 0
        # With its instant, because uvloop's handle has none when it is due in less than a millisecond.
        self._timer: tuple[float, asyncio.Handle] | None = None

    def __len__(self) -> int:
        return len(self._at)

    def add(self, key: K, when: float) -> None:
        """Enqueue the key at that instant, or earlier if an earlier one is set."""
        known = self._at.get(key)
        if known is not None and known <= when:
            return
        self._at[key] = when
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, key))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._rebuild()
        self._arm()

    def drop(self, key: K) -> None:
        self._at.pop(key, None)

    def clear(self) -> None:
        self._at.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    def shift(self, seconds: float) -> None:
        self._at = {key: when - seconds for key, when in self._at.items()}
        self._rebuild()
        self._arm()

    def _rebuild(self) -> None:
        self._heap = [(when, serial, key) for serial, (key, when) in enumerate(self._at.items())]
        self._serial = len(self._heap)
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        when = self._heap[0][0]
        if self._timer is not None:
            set_for, handle = self._timer
            if set_for <= when:
                return
            handle.cancel()
        self._timer = when, asyncio.get_running_loop().call_at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        # A timer may fire slightly early; its keys count as due.
        horizon = now + 1e-6
        while self._heap and self._heap[0][0] <= horizon:
            when, _, key = heapq.heappop(self._heap)
            if self._at.get(key) == when:
                del self._at[key]
                self._due(key)
        self._arm()


REQUEUE_BACKOFF = Backoff(first=0.005, limit=300.0)
"""From five milliseconds to five minutes: most failures are conflicts that the next reconcile resolves."""


class Quarantine(Struct, frozen=True):
    """When an object that keeps failing is quarantined: after how many failures, with which longer delays."""

    after: int = 5
    backoff: Backoff = Backoff(first=10.0, limit=300.0)
    patience: float = 10.0
    """A change of the object shortens its delay to this, not below: a failing object often changes itself."""

    def holds(self, failures: int) -> bool:
        return failures >= self.after

    def delay(self, failures: int, random: Random) -> float:
        if self.holds(failures):
            return self.backoff.delay(failures - self.after + 1, random)
        return REQUEUE_BACKOFF.delay(failures, random)


DEFERRED_EVERY = 4
"""One key in so many is a deferred one, however many others wait."""

LONGEST_RUN = 4
"""Keys of one lane that are returned in a row: they need the same objects, which a cache then decodes once."""


class WorkQueue(Generic[K]):
    """Keys that have to be reconciled.

    A key is queued at most once, however often it is added, and is not returned again before `done`. A key added
    while it is processed is queued again afterwards. Lanes take turns, so that many keys in one lane delay
    another lane by a few keys. Keys that were deferred come after all others. Must be used on one loop.
    """

    def __init__(
        self, *, random: Random, lane: Callable[[K], Hashable] | None = None, quarantine: Quarantine | None = None
    ) -> None:
        self._random = random
        self._lane = lane or (lambda key: key)
        self._quarantine = quarantine or Quarantine()
        self._lanes: OrderedDict[Hashable, list[K]] = OrderedDict()  # lists: a start enqueues every key of a fleet
        self._deferred: OrderedDict[Hashable, list[K]] = OrderedDict()  # lanes that come after the others
        self._run = 0  # keys that the first lane has returned in its turn
        self._turns = 0  # since keys were deferred
        self._queued: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}
        self._delay_queue = DelayQueue[K](self._put)
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idlers: list[asyncio.Future[None]] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def in_flight(self) -> int:
        return len(self._active)

    @property
    def delayed(self) -> int:
        return len(self._delay_queue)

    @property
    def quarantined(self) -> int:
        return len(self._held)

    def add(self, key: K) -> None:
        """Enqueue a key: now, or after its quarantine delay."""
        if self._closed:
            return
        earliest = self._held.get(key)
        if earliest is not None and key not in self._active and earliest > asyncio.get_running_loop().time():
            self._delay_queue.add(key, earliest)
        else:
            self._put(key)

    def add_after(self, key: K, delay: float) -> None:
        """Enqueue a key after so many seconds, or earlier if an earlier instant is set.

        If the key is processed earlier for any reason, the delayed entry is dropped: it would see the same facts.
        """
        if not self._closed:
            self._delay_queue.add(key, asyncio.get_running_loop().time() + max(delay, 0.0))

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Enqueue a key that has failed, with backoff; returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(self._quarantine.delay(failures, self._random), at_least)
        if self._quarantine.holds(failures):
            self._held[key] = asyncio.get_running_loop().time() + min(delay, self._quarantine.patience)
        self._delay_queue.drop(key)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Reset the failures of a key: it has succeeded, or no longer exists."""
        self._failures.pop(key, None)
        self._held.pop(key, None)

    async def get(self) -> K | None:
        """Return the next key, or None once the queue is closed."""
        while not self._queued:
            if self._closed:
                return None
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                self._pass_on(getter)
                raise
        key = self._pop()
        self._active.add(key)
        self._delay_queue.drop(key)
        return key

    def done(self, key: K) -> None:
        """Mark a key as processed, successfully or not."""
        self._active.remove(key)
        if key in self._again:
            self._again.remove(key)
            self.add(key)
        self._settle()

    def close(self) -> None:
        """Accept no more keys, and drop those that wait."""
        self._closed = True
        self._delay_queue.clear()
        for waiting in (self._again, self._lanes, self._deferred, self._queued):
            waiting.clear()
        while self._getters:
            self._release(self._getters.popleft())
        self._settle()

    def defer(self) -> None:
        """Let the keys that wait now come after those that are added from now on; at a start these are all keys."""
        for lane, keys in self._lanes.items():
            self._deferred.setdefault(lane, []).extend(keys)
        self._lanes = OrderedDict()
        self._turns = 0

    async def idle(self) -> None:
        """Wait until no key is ready or being processed; delayed keys do not count."""
        while self._queued or self._active:
            idler = asyncio.get_running_loop().create_future()
            self._idlers.append(idler)
            await idler

    def shift(self, seconds: float) -> None:
        """Move every delayed key forward: the loop did not see that much time pass."""
        self._delay_queue.shift(seconds)

    def _put(self, key: K) -> None:
        if key in self._active:
            if not self._closed:
                self._again.add(key)
            return
        if key in self._queued and not self._take_deferred(key):
            return
        self._queued.add(key)
        self._lanes.setdefault(self._lane(key), []).append(key)
        if self._getters:
            self._release(self._getters.popleft())

    def _take_deferred(self, key: K) -> bool:
        lane = self._lane(key)
        keys = self._deferred.get(lane, [])
        if key not in keys:
            return False
        keys.remove(key)
        if not keys:
            del self._deferred[lane]
        return True

    def _pop(self) -> K:
        lanes = self._lanes
        if self._deferred:
            self._turns += 1
            lanes = self._deferred if not lanes or self._turns % DEFERRED_EVERY == 0 else lanes
        name, lane = next(iter(lanes.items()))
        key = lane.pop(0)
        self._run += 1
        if not lane:
            del lanes[name]
            self._run = 0
        elif self._run >= LONGEST_RUN:
            lanes.move_to_end(name)
            self._run = 0
        self._queued.remove(key)
        if not self._queued:  # none of them shrinks, and a start enqueues every key of a fleet
            self._queued, self._lanes, self._deferred = set(), OrderedDict(), OrderedDict()
        return key

    def _pass_on(self, getter: asyncio.Future[None]) -> None:
        if getter.cancelled():  # it was not enqueued yet
            if getter in self._getters:
                self._getters.remove(getter)
        elif self._queued and self._getters:
            self._release(self._getters.popleft())

    def _settle(self) -> None:
        if self._queued or self._active:
            return
        idlers, self._idlers = self._idlers, []
        for idler in idlers:
            self._release(idler)

    @staticmethod
    def _release(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)
