"""What is counted of pull secrets: the indicators that the service level objectives are written in."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.credentials.lifecycle import Reason
from watchword.pullsecrets.dockercfg import Credentials
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.runtime.metrics import LabelBudget
from watchword.runtime.prometheus import CollectorRegistry, Counter, Gauge, Histogram


class TokenTimes(Struct, frozen=True):
    """From when until when the token of a pull secret is valid; None while there is no token."""

    issued_at: datetime | None = None
    expires_at: datetime | None = None


class KnownSecrets(Struct):
    """The pull secrets that this process manages, by UID, with what their tokens say of time."""

    times: dict[str, TokenTimes] = field(default_factory=dict)

    def observe(self, secret: PullSecret) -> None:
        content = secret.content
        token = content.token if isinstance(content, Credentials) else None
        self.times[secret.uid] = TokenTimes() if token is None else TokenTimes(token.issued_at, token.expires_at)

    def forget(self, uid: str) -> None:
        self.times.pop(uid, None)

    def empty(self) -> int:
        """Return how many hold no credential."""
        return sum(times.expires_at is None for times in self.times.values())

    def oldest_age(self, now: datetime) -> timedelta:
        """Return the age of the oldest token, nothing without a token."""
        return max((now - at for times in self.times.values() if (at := times.issued_at)), default=timedelta(0))

    def soonest_expiry(self, now: datetime) -> float:
        """Return the seconds until the first token expires, negative when one has; infinite without a token."""
        left = ((at - now).total_seconds() for times in self.times.values() if (at := times.expires_at))
        return min(left, default=math.inf)


class PullSecretMetrics:
    """The series of pull secrets, in the registry of the process."""

    def __init__(self, registry: CollectorRegistry, known: KnownSecrets, *, now: Callable[[], datetime]) -> None:
        self.known = known
        secrets = Gauge("watchword_pull_secrets", "Managed pull secrets by state", ["state"], registry=registry)
        secrets.labels("empty").set_function(known.empty)
        secrets.labels("filled").set_function(lambda: len(known.times) - known.empty())
        Gauge(
            "watchword_pull_secret_oldest_token_age_seconds",
            "Age of the oldest token in a pull secret",
            registry=registry,
        ).set_function(lambda: known.oldest_age(now()).total_seconds())
        Gauge(
            "watchword_pull_secret_soonest_expiry_seconds",
            "Seconds until the first token in a pull secret expires; negative when one has expired",
            registry=registry,
        ).set_function(lambda: known.soonest_expiry(now()))
        self._refreshes = Counter(
            "watchword_pull_secret_refresh", "Tokens written to pull secrets", ["reason"], registry=registry
        )
        self._failures = Counter(
            "watchword_pull_secret_refresh_failure",
            "Refreshes of a pull secret that failed",
            ["reason", "error"],
            registry=registry,
        )
        self._seconds = Histogram(
            "watchword_pull_secret_refresh_seconds",
            "How long it took to get a token and write it",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
            registry=registry,
        )
        self._first = Histogram(
            "watchword_pull_secret_first_token_seconds",
            "From the creation of a pull secret to its first token",
            buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
            registry=registry,
        )
        self._errors = LabelBudget(32)

    def refreshed(self, reason: Reason, *, seconds: float, waited: float | None) -> None:
        """Count a refresh; `waited` is how long a new pull secret was empty."""
        self._refreshes.labels(reason.value).inc()
        self._seconds.observe(seconds)
        if waited is not None:
            self._first.observe(waited)

    def failed(self, reason: Reason, error: Exception) -> None:
        self._failures.labels(reason.value, self._errors.value(type(error).__name__)).inc()
