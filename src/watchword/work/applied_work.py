"""Removes what a work had applied once its record goes, and the record once its work has vanished from the hub."""

from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, ObjectRef, is_deleting, owner_reference
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, RetryAfter, TriggerSource
from watchword.runtime.status import StatusChange
from watchword.work.applied_work_store import AppliedWorkStore, read_applied_resources
from watchword.work.object_watches import ObjectWatches
from watchword.work.objects import ObjectRemover, SharedObjects

RECHECK = timedelta(seconds=5)
EVICTION_DISABLED = timedelta(days=36500)


class EvictionDecision(Struct, frozen=True):
    """What follows from a work that is missing on the hub."""

    begin: bool = False  # take note of when it was first missed
    due_in: timedelta | None = None  # None: never


def decide_eviction(missed_since: datetime | None, *, now: datetime, grace: timedelta) -> EvictionDecision:
    """Decide when the record of a missing work goes: not before the grace period, as a hub may be restored."""
    if grace >= EVICTION_DISABLED:
        return EvictionDecision()
    if missed_since is None or missed_since > now:
        return EvictionDecision(begin=True, due_in=grace)
    return EvictionDecision(due_in=max(timedelta(0), missed_since + grace - now))


class AppliedWorkReconciler(Struct):
    """Reconciles AppliedManifestWork on the managed cluster; woken by it, by its work and by the objects in it."""

    cluster: ApiServerConnection
    hub: ApiServerConnection
    cluster_name: str
    applied_work_store: AppliedWorkStore
    remover: ObjectRemover
    watches: ObjectWatches
    shared: SharedObjects
    clock: Clock
    grace: timedelta
    recheck: timedelta  # the hub's address may change without any event
    works: TriggerSource  # rung when there is something to say about a work
    trigger_source: TriggerSource = field(default_factory=TriggerSource)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Empty a record that goes, evict one whose work is gone, and leave those of other agents alone."""
        record = self.cluster.cache.get(APPLIED_MANIFEST_WORKS, key)
        spec: Object = (record or {}).get("spec") or {}
        if record is None or spec.get("agentID") != self.applied_work_store.agent:
            self.watches.forget(self.trigger_source, key)
            return Done()
        if is_deleting(record):
            return await self._remove_objects(record)
        if self._is_served(record):
            if _eviction_start(record) is not None:
                await self._set_eviction_start(record, None)
            return RetryAfter(self.recheck)
        return await self._evict(record)

    def _is_served(self, record: Object) -> bool:
        work = str(record["spec"].get("manifestWorkName") or "")
        if ObjectKey.of(record) != self.applied_work_store.key(work):
            return False
        return self.hub.cache.get(MANIFEST_WORKS, ObjectKey(self.cluster_name, work)) is not None

    async def _remove_objects(self, record: Object) -> Outcome:
        key = ObjectKey.of(record)
        targets = await self.remover.resolve(read_applied_resources(record))
        self.watches.watch_objects(self.trigger_source, key, frozenset(targets.values()))
        await self.watches.wait_for_sync(targets.values())

        def is_kept(target: ObjectRef) -> bool:
            return self.shared.is_kept(record, target)

        left, failure = await self.remover.remove(targets, owner_reference(record), keep=is_kept)
        self._set_removal_failure(record, "" if failure is None else str(failure))
        if failure is not None:
            raise failure.error
        if left:
            return RetryAfter(RECHECK)
        self.watches.forget(self.trigger_source, key)
        await self.applied_work_store.remove_finalizer(record)
        return Done()

    def _set_removal_failure(self, record: Object, why: str) -> None:
        key, failures = ObjectKey.of(record), self.remover.failures
        if failures.get(key, "") != why:
            failures[key] = why
            self.works.enqueue(ObjectKey(self.cluster_name, str(record["spec"].get("manifestWorkName") or "")))
        if not why:
            failures.pop(key, None)

    async def _evict(self, record: Object) -> Outcome:
        decision = decide_eviction(_eviction_start(record), now=self.clock.now(), grace=self.grace)
        if decision.begin:
            await self._set_eviction_start(record, rfc3339(self.clock.now()))
        if decision.due_in is None:
            return Done()
        if decision.due_in > timedelta(0):
            return RetryAfter(decision.due_in)
        if not await self._is_really_gone(record):
            return RetryAfter(RECHECK)
        await self.applied_work_store.delete(record)
        return Done()

    async def _is_really_gone(self, record: Object) -> bool:
        """Ask the hub itself before anything is destroyed; of another hub's works it knows nothing."""
        work = str(record["spec"].get("manifestWorkName") or "")
        if ObjectKey.of(record) != self.applied_work_store.key(work):
            return True
        return await self.hub.client.find(MANIFEST_WORKS, ObjectKey(self.cluster_name, work)) is None

    async def _set_eviction_start(self, record: Object, since: str | None) -> None:
        change = StatusChange(fields={"evictionStartTime": since})
        await self.cluster.status.write(APPLIED_MANIFEST_WORKS, record, change)


def _eviction_start(record: Object) -> datetime | None:
    text = (record.get("status") or {}).get("evictionStartTime")
    return parse_rfc3339(str(text)) if text else None
