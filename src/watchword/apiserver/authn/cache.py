"""A small memory of costly verifications: bounded, and forgotten after a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from msgspec import Struct, field

V = TypeVar("V")


class TtlCache(Struct, Generic[V]):
    """Keeps up to `size` values for `ttl`; the oldest go first. Keys are public, or digests."""

    ttl: timedelta
    size: int = 4096
    _rows: OrderedDict[Hashable, tuple[datetime, V]] = field(default_factory=OrderedDict)

    def get(self, key: Hashable, *, now: datetime) -> V | None:
        """Return the cached value, None when absent or too old."""
        row = self._rows.get(key)
        if row is None:
            return None
        if not timedelta(0) <= now - row[0] < self.ttl:
            del self._rows[key]
            return None
        return row[1]

    def put(self, key: Hashable, value: V, *, now: datetime) -> V:
        """Store a value and return it."""
        self._rows[key] = (now, value)
        self._rows.move_to_end(key)
        while len(self._rows) > self.size:
            self._rows.popitem(last=False)
        return value
