"""What is counted of the tokens that a pillar keeps: how long they are valid, and how they are refreshed."""

import math
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from watchword.runtime.metrics import LabelBudget
from watchword.runtime.prometheus import CollectorRegistry, Counter, Gauge, Histogram


class TokenTimes(Struct, frozen=True):
    """From when until when a token is valid; None while there is no token."""

    issued_at: datetime | None = None
    expires_at: datetime | None = None  # None also for a token that is not meant to be renewed


class TokenValidityMetrics:
    """The age of the oldest token and the expiry of the first one; `times` has those that are kept, by UID."""

    def __init__(self, registry: CollectorRegistry, kind: str, where: str, *, now: Callable[[], datetime]) -> None:
        self.times: dict[str, TokenTimes] = {}
        age = f"Age of the oldest token {where}"
        Gauge(f"watchword_{kind}_oldest_token_age_seconds", age, registry=registry).set_function(
            lambda: self._oldest_age(now())
        )
        expiry = f"Seconds until the first token {where} expires; negative when one has expired"
        Gauge(f"watchword_{kind}_soonest_expiry_seconds", expiry, registry=registry).set_function(
            lambda: self._soonest_expiry(now())
        )

    def _oldest_age(self, now: datetime) -> float:
        ages = ((now - at).total_seconds() for times in self.times.values() if (at := times.issued_at))
        return max(ages, default=0.0)

    def _soonest_expiry(self, now: datetime) -> float:
        left = ((at - now).total_seconds() for times in self.times.values() if (at := times.expires_at))
        return min(left, default=math.inf)


class TokenRefreshMetrics:
    """How tokens are refreshed, and how that fails."""

    def __init__(self, registry: CollectorRegistry, kind: str, where: str) -> None:
        name = f"watchword_{kind}_refresh"
        self._refreshes = Counter(name, f"Tokens {where} that were written", ["reason"], registry=registry)
        failures = f"Refreshes of a token {where} that failed"
        self._failures = Counter(f"{name}_failure", failures, ["reason", "error"], registry=registry)
        self._seconds = Histogram(
            f"{name}_seconds",
            "How long it took to get a token and write it",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=registry,
        )
        self._errors = LabelBudget(32)

    def refreshed(self, reason: str, *, seconds: float) -> None:
        self._refreshes.labels(reason).inc()
        self._seconds.observe(seconds)

    def failed(self, reason: str, error: Exception) -> None:
        self._failures.labels(reason, self._errors.value(type(error).__name__)).inc()
