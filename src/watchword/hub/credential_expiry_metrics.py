"""Measures how long the clusters' credentials live, as their agents report it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from watchword.api.credential_validity import parse_validity
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.drivers.catalog import Catalog
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader

KIND = "cluster"


@dataclass(frozen=True)
class CredentialExpiryReconciler:
    """Reconciles ManagedCluster; sends nothing, so it costs a hub next to nothing."""

    reader: Reader
    metrics: CredentialMetrics
    clock: Clock
    catalog: Catalog
    known: dict[str, datetime] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Measure one cluster from its condition, or stop measuring it."""
        found = self.reader.get(MANAGED_CLUSTERS, key)
        said = self.catalog.cluster_credential(found) if found is not None else None
        validity = parse_validity(said.message) if said is not None else None
        if validity is not None and validity.expires is not None:
            self.known[key.name] = validity.expires
            self.metrics.watch_expiry(KIND, key.name, lambda: self._left(key.name))
        elif self.known.pop(key.name, None) is not None:
            self.metrics.forget(KIND, key.name)
        return Done()

    def _left(self, cluster: str) -> float:
        expires = self.known.get(cluster)
        return (expires - self.clock.now()).total_seconds() if expires is not None else 0.0


def expiry_controllers(
    reader: Reader, metrics: CredentialMetrics, clock: Clock, catalog: Catalog
) -> Iterable[ControllerSpec]:
    """Return the measurement as a controller."""
    yield ControllerSpec(
        "credential-expiry", MANAGED_CLUSTERS, CredentialExpiryReconciler(reader, metrics, clock, catalog), workers=1
    )
