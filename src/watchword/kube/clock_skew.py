"""Measures the clock skew of a server by the Date header of its responses."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from watchword.api.http import Response
from watchword.api.time import parse_http_date

MEASURE_EVERY = 30.0
_HALF_A_SECOND = 0.5  # Date has a resolution of one second


class ClockSkewMeter:
    """Measures from time to time; `skew` is the server's clock minus ours, accurate to about a second."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._next = float("-inf")
        self.skew: timedelta | None = None

    def observe(self, response: Response, *, sent_at: float, received_at: float) -> None:
        """Take a response into account; the instants are the loop's and tell how long the request took."""
        if received_at < self._next:
            return
        date = parse_http_date(response.header("Date"))
        if date is None:
            return
        self._next = received_at + MEASURE_EVERY
        half_way = self._now() - (received_at - sent_at) / 2
        self.skew = timedelta(seconds=date.timestamp() + _HALF_A_SECOND - half_way)
