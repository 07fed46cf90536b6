"""Enqueues keys at given instants."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

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
        """Remove the key."""
        self._at.pop(key, None)

    def clear(self) -> None:
        """Remove all keys."""
        self._at.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    def shift(self, seconds: float) -> None:
        """Move every instant forward."""
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
