"""Removes the objects of a record that is deleted, and records whose work is gone from the hub."""

from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, ObjectRef, is_deleting, owner_reference
from watchword.api.names import Finalizer
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import delete_object, remove_finalizer
from watchword.runtime.reconcile import Done, Outcome, RetryAfter, TriggerSource
from watchword.runtime.status import StatusChange
from watchword.work.applied_work_store import AppliedWorkStore, read_applied_resources
from watchword.work.object_watches import ObjectWatches
from watchword.work.objects import ObjectRemover, SharedObjects

RECHECK = timedelta(seconds=5)
EVICTION_DISABLED = timedelta(days=36500)


def decide_eviction(
    missed_since: datetime | None, *, now: datetime, grace: timedelta
) -> tuple[datetime | None, timedelta | None]:
    """Return since when a work is missing on the hub, and when its record goes: a hub may be restored meanwhile."""
    if grace >= EVICTION_DISABLED:
        return missed_since, None
    since = now if missed_since is None or missed_since > now else missed_since
    return since, max(timedelta(0), since + grace - now)


class AppliedWorkReconciler(Struct):
    """Reconciles AppliedManifestWork on the managed cluster; triggered by it, its work and by the objects in it."""

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
    works: TriggerSource  # triggered when the status of a work has to change
    trigger_source: TriggerSource = field(default_factory=TriggerSource)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Empty a record that is deleted, evict one whose work is deleted, and ignore those of other agents."""
        record = self.cluster.cache.get(APPLIED_MANIFEST_WORKS, key)
        spec: Object = (record or {}).get("spec") or {}
        if record is None or spec.get("agentID") != self.applied_work_store.agent:
            self.watches.forget(self.trigger_source, key)
            return Done()
        if is_deleting(record):
            return await self._remove_objects(record)
        work = self._work_key(record)
        if work is not None and self.hub.cache.get(MANIFEST_WORKS, work) is not None:
            if _eviction_start(record) is not None:
                await self._set_eviction_start(record, None)
            return RetryAfter(self.recheck)
        return await self._evict(record)

    def _work_key(self, record: Object) -> ObjectKey | None:
        """Return the work of a record; None when it is that of another hub."""
        work = str(record["spec"].get("manifestWorkName") or "")
        is_of_hub = ObjectKey.of(record) == self.applied_work_store.key(work)
        return ObjectKey(self.cluster_name, work) if is_of_hub else None

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
        await remove_finalizer(self.cluster.client, APPLIED_MANIFEST_WORKS, record, Finalizer.APPLIED_WORK)
        return Done()

    def _set_removal_failure(self, record: Object, why: str) -> None:
        key, failures = ObjectKey.of(record), self.remover.failures
        if failures.get(key, "") != why:
            failures[key] = why
            self.works.enqueue(ObjectKey(self.cluster_name, str(record["spec"].get("manifestWorkName") or "")))
        if not why:
            failures.pop(key, None)

    async def _evict(self, record: Object) -> Outcome:
        before = _eviction_start(record)
        since, due_in = decide_eviction(before, now=self.clock.now(), grace=self.grace)
        if since is not None and since != before:
            await self._set_eviction_start(record, rfc3339(since))
        if due_in is None:
            return Done()
        if due_in > timedelta(0):
            return RetryAfter(due_in)
        # The hub itself is asked before anything is destroyed; of another hub's works it knows nothing.
        work = self._work_key(record)
        if work is not None and await self.hub.client.find(MANIFEST_WORKS, work) is not None:
            return RetryAfter(RECHECK)
        await delete_object(self.cluster.client, APPLIED_MANIFEST_WORKS, record)
        return Done()

    async def _set_eviction_start(self, record: Object, since: str | None) -> None:
        change = StatusChange(fields={"evictionStartTime": since})
        await self.cluster.status.write(APPLIED_MANIFEST_WORKS, record, change)


def _eviction_start(record: Object) -> datetime | None:
    text = (record.get("status") or {}).get("evictionStartTime")
    return parse_rfc3339(str(text)) if text else None
