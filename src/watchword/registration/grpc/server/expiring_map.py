"""Remembers a bounded number of values for a short time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Struct, Generic[V], frozen=True):
    """A value and the time of the event loop until which it counts."""

    value: V
    until: float


class ExpiringMap(Generic[K, V]):
    """Forgets values after their time, and the oldest ones when there are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: OrderedDict[K, Remembered[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: K) -> Remembered[V] | None:
        """Return what is remembered; None when nothing is."""
        row = self._rows.get(key)
        if row is None or row.until <= asyncio.get_running_loop().time():
            return None
        return row

    def put(self, key: K, value: V, seconds: float) -> None:
        """Remember a value for so many seconds."""
        self._rows[key] = Remembered(value, asyncio.get_running_loop().time() + seconds)
        self._rows.move_to_end(key)
        while len(self._rows) > self._limit:
            self._rows.popitem(last=False)

    def forget(self, matches: Callable[[K], bool]) -> None:
        """Forget every key for which the function returns True."""
        for key in [key for key in self._rows if matches(key)]:
            del self._rows[key]
