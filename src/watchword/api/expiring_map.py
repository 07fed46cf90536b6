"""Remembers a bounded number of values, each for a time."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct, field

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringMap(Struct, Generic[K, V]):
    """Forgets values after their time, and the oldest ones when there are too many. Time is in seconds of any clock."""

    limit: int
    _rows: dict[K, tuple[V, float, float]] = field(default_factory=dict)  # value, since when, until when

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: K, *, now: float) -> V | None:
        """Return the value; None when there is none, or its time is over, or the clock was set back before it."""
        row = self._rows.get(key)
        if row is None:
            return None
        value, since, until = row
        if not since <= now < until:
            del self._rows[key]
            return None
        return value

    def put(self, key: K, value: V, *, now: float, seconds: float) -> None:
        self._rows.pop(key, None)
        while self._rows:  # what lives as long as the others goes in the order in which it came
            oldest = next(iter(self._rows))
            if len(self._rows) < self.limit and self._rows[oldest][2] > now:
                break
            del self._rows[oldest]
        self._rows[key] = value, now, now + seconds

    def forget(self, matches: Callable[[K], bool]) -> None:
        for key in [key for key in self._rows if matches(key)]:
            del self._rows[key]
