"""Metrics of controllers and of credentials, with bounded label values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from watchword.api.credential_report import CredentialValidity
from watchword.runtime.prometheus import CollectorRegistry, CounterSeries, HistogramSeries

OTHER = "other"


class ReconcileResult(StrEnum):
    """How one reconcile ended."""

    DONE = "done"
    RETRY_AFTER = "retry_after"
    TERMINAL = "terminal"
    CONFLICT = "conflict"
    CONTESTED = "contested"
    DEADLINE = "deadline"
    ERROR = "error"


class LabelBudget:
    """Bounds the values of a label; further ones become `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def value(self, wanted: str) -> str:
        if wanted not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(wanted)
        return wanted

    def forget(self, value: str) -> None:
        self._known.discard(value)


class ControllerMetrics:
    """The series of one controller, looked up once."""

    def __init__(self, results: Mapping[ReconcileResult, CounterSeries], seconds: HistogramSeries) -> None:
        self._results = results
        self._seconds = seconds

    def observe(self, result: ReconcileResult, seconds: float) -> None:
        self._results[result].inc()
        self._seconds.observe(seconds)


class Metrics:
    """The runtime's metrics in one registry, which belongs to the process and not to the module."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry = registry or CollectorRegistry()
        self._reconciles = registry.counter(
            "watchword_reconcile", "Reconciles by how they ended", "controller", "result"
        )
        self._seconds = registry.histogram(
            "watchword_reconcile_seconds",
            "How long a reconcile took",
            "controller",
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60),
        )
        self._queue = registry.gauge("watchword_queue_keys", "Keys by what they wait for", "controller", "state")
        slowed = "Objects that are slowed because they keep failing"
        self._quarantined = registry.gauge("watchword_quarantined_objects", slowed, "controller")
        silence = "Seconds since a watch last received anything"
        self._age = registry.gauge("watchword_watch_last_event_age_seconds", silence, "resource")
        self._objects = registry.gauge("watchword_cache_objects", "Objects in the cache", "resource")
        self.leading = registry.gauge("watchword_leading", "Whether this process holds the lease").labels()
        dropped = "Events that were not sent because there were too many"
        self._events_dropped = registry.counter("watchword_events_dropped", dropped).labels()
        self._reasons, self._managers, self._fields = LabelBudget(64), LabelBudget(32), LabelBudget(32)
        self._denied = registry.counter("watchword_denied", "Requests that were refused", "reason")
        self._conflicts = registry.counter("watchword_field_conflict", "Fields that another manager owns", "manager")
        contested = (
            "Writes after which a field was left alone for a while, because another program keeps changing it back"
        )
        self._contested = registry.counter("watchword_contested_writes", contested, "field")

    @cached_property
    def credentials(self) -> CredentialMetrics:
        return CredentialMetrics(self.registry)

    def dropped_event(self) -> None:
        self._events_dropped.inc()

    def denied(self, reason: str) -> None:
        self._denied.labels(self._reasons.value(reason)).inc()

    def field_conflict(self, manager: str) -> None:
        self._conflicts.labels(self._managers.value(manager)).inc()

    def contested_write(self, field: str) -> None:
        self._contested.labels(self._fields.value(field)).inc()

    def controller(self, name: str) -> ControllerMetrics:
        results = {result: self._reconciles.labels(name, result.value) for result in ReconcileResult}
        return ControllerMetrics(results, self._seconds.labels(name))

    def watch_queue(
        self, name: str, states: Mapping[str, Callable[[], float]], quarantined: Callable[[], float]
    ) -> None:
        for state, read in states.items():
            self._queue.labels(name, state).set_function(read)
        self._quarantined.labels(name).set_function(quarantined)

    def watch_informer(self, resource: str, *, age: Callable[[], float], objects: Callable[[], float]) -> None:
        self._age.labels(resource).set_function(age)
        self._objects.labels(resource).set_function(objects)


class RemainingLife(Struct, frozen=True):
    """How much of a credential's validity is left."""

    seconds: float
    ratio: float  # of the validity that was issued; not a number when it is not known when that was


def remaining_life(validities: Iterable[CredentialValidity], *, now: datetime) -> RemainingLife:
    """Return how much is left of the credential that ends first, and of the one that has used up most of its life."""
    ends = [(each.issued, each.expires) for each in validities if each.expires is not None]
    seconds = min(((expires - now).total_seconds() for _, expires in ends), default=math.inf)
    ratios = [
        (expires - now) / (expires - issued) for issued, expires in ends if issued is not None and expires > issued
    ]
    return RemainingLife(seconds, min(max(min(ratios), 0.0), 1.0) if ratios else math.nan)


class CredentialMetrics:
    """The metrics of everything that issues, holds or revokes credentials."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._clusters, self._reasons = LabelBudget(3000), LabelBudget(64)
        expires = "Seconds until a credential expires"
        self._expires = registry.gauge("watchword_credential_expires_seconds", expires, "kind", "cluster")
        ratio = "Fraction of the issued validity of a credential that is left"
        self._ratio = registry.gauge("watchword_credential_remaining_ratio", ratio, "kind", "cluster")
        rotations = "Renewals of credentials, by how they ended"
        self._rotations = registry.counter("watchword_rotation", rotations, "kind", "result", "reason")
        self._remaining = registry.histogram(
            "watchword_rotation_remaining_ratio",
            "Fraction of the validity that was left when a rotation succeeded",
            "kind",
            buckets=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0),
        )
        self.revocation = registry.histogram(
            "watchword_revocation_seconds",
            "From a denial to the moment at which the hub refuses the cluster",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
        ).labels()
        self.join = registry.histogram(
            "watchword_join_seconds",
            "From the first request to a usable credential, including the time until an administrator accepts",
            buckets=(0.5, 1, 2.5, 5, 10, 60, 600, 3600, 6 * 3600, 24 * 3600),
        ).labels()
        self._skew = registry.gauge("watchword_clock_skew_seconds", "The server's clock minus ours").labels()

    def watch_expiry(self, kind: str, cluster: str, left: Callable[[], RemainingLife]) -> None:
        labels = kind, self._clusters.value(cluster)
        self._expires.labels(*labels).set_function(lambda: left().seconds)
        self._ratio.labels(*labels).set_function(lambda: left().ratio)

    def watch_skew(self, read: Callable[[], timedelta | None]) -> None:
        """Read the server's clock skew at every scrape; None while it is unknown."""

        def seconds() -> float:
            skew = read()
            return 0.0 if skew is None else skew.total_seconds()

        self._skew.set_function(seconds)

    def forget(self, kind: str, cluster: str) -> None:
        if self._clusters.value(cluster) == cluster:
            with suppress(KeyError):  # never measured
                self._expires.remove(kind, cluster)
                self._ratio.remove(kind, cluster)
            self._clusters.forget(cluster)

    def rotated(self, kind: str, *, remaining_ratio: float) -> None:
        self._rotations.labels(kind, "success", "").inc()
        self._remaining.labels(kind).observe(remaining_ratio)

    def rotation_failed(self, kind: str, reason: str) -> None:
        self._rotations.labels(kind, "failure", self._reasons.value(reason)).inc()


class TokenValidityMetrics:
    """The age of the oldest token and the expiry of the first one; `times` has those that are kept, by UID.

    One that is not meant to be renewed has no expiry there.
    """

    def __init__(self, registry: CollectorRegistry, kind: str, where: str, *, now: Callable[[], datetime]) -> None:
        self.times: dict[str, CredentialValidity] = {}
        age = f"Age of the oldest token {where}"
        oldest = registry.gauge(f"watchword_{kind}_oldest_token_age_seconds", age).labels()
        oldest.set_function(lambda: self._oldest_age(now()))
        expiry = f"Seconds until the first token {where} expires; negative when one has expired"
        soonest = registry.gauge(f"watchword_{kind}_soonest_expiry_seconds", expiry).labels()
        soonest.set_function(lambda: self._soonest_expiry(now()))

    def _oldest_age(self, now: datetime) -> float:
        ages = ((now - at).total_seconds() for times in self.times.values() if (at := times.issued))
        return max(ages, default=0.0)

    def _soonest_expiry(self, now: datetime) -> float:
        left = ((at - now).total_seconds() for times in self.times.values() if (at := times.expires))
        return min(left, default=math.inf)


class TokenRefreshMetrics:
    """How tokens are refreshed, and how that fails."""

    def __init__(self, registry: CollectorRegistry, kind: str, where: str) -> None:
        name = f"watchword_{kind}_refresh"
        self._refreshes = registry.counter(name, f"Tokens {where} that were written", "reason")
        failures = f"Refreshes of a token {where} that failed"
        self._failures = registry.counter(f"{name}_failure", failures, "reason", "error")
        self._seconds = registry.histogram(
            f"{name}_seconds",
            "How long it took to get a token and write it",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
        ).labels()
        self._errors = LabelBudget(32)

    def refreshed(self, reason: str, *, seconds: float) -> None:
        self._refreshes.labels(reason).inc()
        self._seconds.observe(seconds)

    def failed(self, reason: str, error: Exception) -> None:
        self._failures.labels(reason, self._errors.value(type(error).__name__)).inc()
