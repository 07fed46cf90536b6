"""Tells as Events that the IAM role of a cluster was made or deleted, by the hub or by a person."""

from __future__ import annotations

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.api.time import parse_rfc3339
from watchword.registration.aws_irsa.identity_record import IdentityPhase, IdentityRecord, read_record
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder, is_news
from watchword.runtime.reconcile import Done, Outcome, Reader


class IdentityEventReconciler(Struct, frozen=True):
    """Reconciles the records of roles. After a restart, roles of the last hour are told again."""

    reader: Reader
    events: EventRecorder
    clock: Clock
    seen: dict[ObjectKey, IdentityRecord] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Compare the record with the one that was there before."""
        lease, before = self.reader.get(LEASES, key), self.seen.pop(key, None)
        now = None if lease is None else read_record(lease)
        if now is not None:
            self.seen[key] = now
        if before is not None and (now is None or now.identity != before.identity):
            note = f"role {before.identity.role.name} of cluster {before.identity.cluster} is deleted"
            self.events.normal(self._cluster(before), "AwsIdentityRevoked", note)
            before = None
        if lease is None or now is None or now.phase is not IdentityPhase.READY:
            return Done()
        if self._is_recent(lease) if before is None else before.phase is IdentityPhase.CREATING:
            note = f"role {now.identity.role.name} of cluster {now.identity.cluster} is made and mapped"
            self.events.normal(self._cluster(now), "AwsIdentityCreated", note)
        return Done()

    def _is_recent(self, lease: Object) -> bool:
        created = parse_rfc3339(str(lease["metadata"].get("creationTimestamp") or ""))
        return is_news(created, now=self.clock.now())

    def _cluster(self, record: IdentityRecord) -> Object:
        """Return the ManagedCluster of the role, or what names it when it is gone."""
        key = ObjectKey.cluster(record.identity.cluster)
        found = self.reader.get(MANAGED_CLUSTERS, key)
        if found is not None and uid_of(found) == record.identity.uid:
            return found
        return MANAGED_CLUSTERS.manifest(key, metadata={"uid": record.identity.uid})
