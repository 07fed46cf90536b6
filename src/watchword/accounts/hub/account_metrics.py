"""Measures how the accounts of a hub stand, as their status says."""

from __future__ import annotations

from msgspec import Struct

from watchword.accounts.metrics import AccountState, HubAccountMetrics
from watchword.api.meta import ObjectKey, Resource, uid_of
from watchword.runtime.reconcile import Done, Outcome, Reader


class AccountMetricsReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of one group; sends nothing."""

    reader: Reader
    metrics: HubAccountMetrics
    kind: Resource
    uids: dict[ObjectKey, str]

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Measure one account, or stop measuring it."""
        found = self.reader.get(self.kind, key)
        former = self.uids.pop(key, None)
        if former is not None:
            self.metrics.known.states.pop(former, None)
        if found is not None:
            self.uids[key] = uid_of(found)
            self.metrics.known.states[uid_of(found)] = AccountState.read(found)
        return Done()
