"""Metrics of the runtime, with bounded label values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from watchword.api.credential_report import CredentialValidity
from watchword.runtime.prometheus import CollectorRegistry, Counter, CounterSeries, Gauge, Histogram, HistogramSeries

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
        self.registry = registry or CollectorRegistry()
        self._reconciles = Counter(
            "watchword_reconcile", "Reconciles by how they ended", ["controller", "result"], registry=self.registry
        )
        self._seconds = Histogram(
            "watchword_reconcile_seconds",
            "How long a reconcile took",
            ["controller"],
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60),
            registry=self.registry,
        )
        self._queue = Gauge(
            "watchword_queue_keys", "Keys by what they wait for", ["controller", "state"], registry=self.registry
        )
        self._quarantined = Gauge(
            "watchword_quarantined_objects",
            "Objects that are slowed because they keep failing",
            ["controller"],
            registry=self.registry,
        )
        self._age = Gauge(
            "watchword_watch_last_event_age_seconds",
            "Seconds since a watch last received anything",
            ["resource"],
            registry=self.registry,
        )
        self._objects = Gauge("watchword_cache_objects", "Objects in the cache", ["resource"], registry=self.registry)
        self.leading = Gauge("watchword_leading", "Whether this process holds the lease", registry=self.registry)
        self._events_dropped = Counter(
            "watchword_events_dropped", "Events that were not sent because there were too many", registry=self.registry
        )
        self._reasons, self._managers, self._fields = LabelBudget(64), LabelBudget(32), LabelBudget(32)
        self._denied = Counter("watchword_denied", "Requests that were refused", ["reason"], registry=self.registry)
        self._conflicts = Counter(
            "watchword_field_conflict", "Fields that another manager owns", ["manager"], registry=self.registry
        )

        self._contested = Counter(
            "watchword_contested_writes",
            "Writes after which a field was left alone for a while, because another program keeps changing it back",
            ["field"],
            registry=self.registry,
        )

    @cached_property
    def credentials(self) -> CredentialMetrics:
        """The metrics of credentials, in the same registry; created once."""
        return CredentialMetrics(self.registry)

    def dropped_event(self) -> None:
        """Count an event that was not sent."""
        self._events_dropped.inc()

    def denied(self, reason: str) -> None:
        self._denied.labels(self._reasons.value(reason)).inc()

    def field_conflict(self, manager: str) -> None:
        self._conflicts.labels(self._managers.value(manager)).inc()

    def contested_write(self, field: str) -> None:
        """Count a field that is left alone for a while, because another program keeps changing it back."""
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

    def __init__(self, registry: CollectorRegistry, *, clusters: LabelBudget | None = None) -> None:
        self._clusters = clusters or LabelBudget(3000)
        self._reasons = LabelBudget(64)
        self._expires = Gauge(
            "watchword_credential_expires_seconds",
            "Seconds until a credential expires",
            ["kind", "cluster"],
            registry=registry,
        )
        self._ratio = Gauge(
            "watchword_credential_remaining_ratio",
            "Fraction of the issued validity of a credential that is left",
            ["kind", "cluster"],
            registry=registry,
        )
        self._rotations = Counter(
            "watchword_rotation",
            "Renewals of credentials, by how they ended",
            ["kind", "result", "reason"],
            registry=registry,
        )
        self._remaining = Histogram(
            "watchword_rotation_remaining_ratio",
            "Fraction of the validity that was left when a rotation succeeded",
            ["kind"],
            buckets=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0),
            registry=registry,
        )
        self._revocation = Histogram(
            "watchword_revocation_seconds",
            "From a denial to the moment at which the hub refuses the cluster",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
            registry=registry,
        )
        self._join = Histogram(
            "watchword_join_seconds",
            "From the first request to a usable credential, including the time until an administrator accepts",
            buckets=(0.5, 1, 2.5, 5, 10, 60, 600, 3600, 6 * 3600, 24 * 3600),
            registry=registry,
        )
        self._skew = Gauge("watchword_clock_skew_seconds", "The server's clock minus ours", registry=registry)

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

    def joined_after(self, seconds: float) -> None:
        self._join.observe(seconds)

    def revoked_after(self, seconds: float) -> None:
        """Record the time from a denial until no right is left."""
        self._revocation.observe(seconds)

    def rotated(self, kind: str, *, remaining_ratio: float) -> None:
        self._rotations.labels(kind, "success", "").inc()
        self._remaining.labels(kind).observe(remaining_ratio)

    def rotation_failed(self, kind: str, reason: str) -> None:
        self._rotations.labels(kind, "failure", self._reasons.value(reason)).inc()
