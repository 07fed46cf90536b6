"""Measures how long credentials still live: of each kind and cluster, the one that ends first."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life
from watchword.runtime.reconcile import Done, Outcome, Reader


class MeasuredCredentials(Struct):
    """The credentials that are measured; what ends first is read at every scrape."""

    metrics: CredentialMetrics
    clock: Clock
    known: dict[tuple[str, str], dict[str, CredentialValidity]] = field(default_factory=dict)

    def observe(self, kind: str, cluster: str, name: str, validity: CredentialValidity | None) -> None:
        """Measure a credential; without an expiry, measure it no more."""
        alike = self.known.setdefault((kind, cluster), {})
        if validity is not None and validity.expires is not None:
            alike[name] = validity
            self.metrics.watch_expiry(kind, cluster, lambda: self._remaining(kind, cluster))
            return
        alike.pop(name, None)
        if not alike:
            del self.known[kind, cluster]
            self.metrics.forget(kind, cluster)

    def _remaining(self, kind: str, cluster: str) -> RemainingLife:
        return remaining_life(self.known.get((kind, cluster), {}).values(), now=self.clock.now())


class CredentialExpiryReconciler(Struct, frozen=True):
    """Reconciles one kind of object that reports a credential; sends nothing, so it costs next to nothing."""

    reader: Reader
    resource: Resource
    kind: str
    read: Callable[[Object], CredentialValidity | None]
    measured: MeasuredCredentials
    cluster_of: Callable[[ObjectKey], str] = lambda key: key.namespace or key.name

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Measure what one object reports, or stop measuring it."""
        found = self.reader.get(self.resource, key)
        validity = self.read(found) if found is not None else None
        self.measured.observe(self.kind, self.cluster_of(key), f"{self.resource.group}/{key}", validity)
        return Done()
