"""Removes what a work had applied once its record goes, and the record once its work has vanished from the hub."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchword.agent.work.ledger import Ledger
from watchword.agent.work.ownership import applied_in
from watchword.agent.work.releasing import Releaser
from watchword.agent.work.watches import ObjectWatches
from watchword.api.meta import Object, ObjectKey, is_deleting, owner_reference
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.runtime.clock import Clock
from watchword.runtime.connection import Connection
from watchword.runtime.reconcile import Bell, Done, Outcome, RetryAfter
from watchword.runtime.status import StatusChange

WAIT = timedelta(seconds=5)
FOR_EVER = timedelta(days=36500)


@dataclass(frozen=True, slots=True)
class Eviction:
    """What follows from a work that is missing on the hub."""

    begin: bool = False  # take note of when it was first missed
    due_in: timedelta | None = None  # None: never


def judge_eviction(missed_since: datetime | None, *, now: datetime, grace: timedelta) -> Eviction:
    """Decide when the record of a missing work goes: not before the grace period, as a hub may be restored."""
    if grace >= FOR_EVER:
        return Eviction()
    if missed_since is None or missed_since > now:
        return Eviction(begin=True, due_in=grace)
    return Eviction(due_in=max(timedelta(0), missed_since + grace - now))


@dataclass
class RecordReconciler:
    """Reconciles AppliedManifestWork on the managed cluster; woken by it, by its work and by the objects in it."""

    cluster: Connection
    hub: Connection
    cluster_name: str
    ledger: Ledger
    releaser: Releaser
    watches: ObjectWatches
    clock: Clock
    grace: timedelta
    recheck: timedelta  # the hub's address may change without any event
    works: Bell  # rung when there is something to say about a work
    bell: Bell = field(default_factory=Bell)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Empty a record that goes, evict one whose work is gone, and leave those of other agents alone."""
        record = self.cluster.cache.get(APPLIED_MANIFEST_WORKS, key)
        spec: Object = (record or {}).get("spec") or {}
        if record is None or spec.get("agentID") != self.ledger.agent:
            self.watches.forget(self.bell, key)
            return Done()
        if is_deleting(record):
            return await self._empty(record)
        if self._is_served(record):
            if _missed_since(record) is not None:
                await self._note(record, None)
            return RetryAfter(self.recheck)
        return await self._evict(record)

    def _is_served(self, record: Object) -> bool:
        """Whether the hub that this agent serves has the work."""
        work = str(record["spec"].get("manifestWorkName") or "")
        if ObjectKey.of(record) != self.ledger.key(work):
            return False
        return self.hub.cache.get(MANIFEST_WORKS, ObjectKey(self.cluster_name, work)) is not None

    async def _empty(self, record: Object) -> Outcome:
        key = ObjectKey.of(record)
        targets = await self.releaser.locate(applied_in(record))
        self.watches.want(self.bell, key, frozenset(targets.values()))
        await self.watches.settle(targets.values())
        left, trouble = await self.releaser.release(targets, owner_reference(record), keep=lambda _: False)
        self._note_refusal(record, "" if trouble is None else str(trouble))
        if trouble is not None:
            raise trouble.error
        if left:
            return RetryAfter(WAIT)
        self.watches.forget(self.bell, key)
        await self.ledger.release(record)
        return Done()

    def _note_refusal(self, record: Object, why: str) -> None:
        key, refusals = ObjectKey.of(record), self.releaser.refusals
        if refusals.get(key, "") != why:
            refusals[key] = why
            self.works.ring(ObjectKey(self.cluster_name, str(record["spec"].get("manifestWorkName") or "")))
        if not why:
            refusals.pop(key, None)

    async def _evict(self, record: Object) -> Outcome:
        verdict = judge_eviction(_missed_since(record), now=self.clock.now(), grace=self.grace)
        if verdict.begin:
            await self._note(record, rfc3339(self.clock.now()))
        if verdict.due_in is None:
            return Done()
        if verdict.due_in > timedelta(0):
            return RetryAfter(verdict.due_in)
        if not await self._is_really_gone(record):
            return RetryAfter(WAIT)
        await self.ledger.close(record)
        return Done()

    async def _is_really_gone(self, record: Object) -> bool:
        """Ask the hub itself before anything is destroyed; of another hub's works it knows nothing."""
        work = str(record["spec"].get("manifestWorkName") or "")
        if ObjectKey.of(record) != self.ledger.key(work):
            return True
        return await self.hub.client.find(MANIFEST_WORKS, ObjectKey(self.cluster_name, work)) is None

    async def _note(self, record: Object, since: str | None) -> None:
        change = StatusChange(fields={"evictionStartTime": since})
        await self.cluster.status.write(APPLIED_MANIFEST_WORKS, record, change)


def _missed_since(record: Object) -> datetime | None:
    text = (record.get("status") or {}).get("evictionStartTime")
    return parse_rfc3339(str(text)) if text else None
