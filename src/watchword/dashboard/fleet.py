"""Keeps the rows of the whole fleet: decides about an object again only when it changed or its time has come."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import structlog

from watchword.api import resources
from watchword.api.meta import ObjectKey, ObjectRef
from watchword.api.names import CLUSTER_LEASE, Label
from watchword.dashboard import sources
from watchword.dashboard.history import HistoryLog, RelatedObjects, regarded_cluster
from watchword.dashboard.row_index import ObjectRows, RecentEvents, RowIndex, decide_object_rows
from watchword.dashboard.rows import hub_rows
from watchword.health.facts import EVENT_ROWS, HUB_SOURCES, PROCESS_SOURCES
from watchword.health.finding import FindingMetrics, urgent
from watchword.health.hub_observer import HubObserver
from watchword.health.hub_rules import HubState, decide_own_findings
from watchword.health.states import InventoryHealth
from watchword.runtime.clock import Clock
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.raw_objects import Delta, head_of
from watchword.runtime.work_queue import DelayQueue

OBJECTS_AT_ONCE = 32  # are decided about before other tasks run: that takes some milliseconds
TICK = 15.0  # seconds after which a clock that was set, and a lease that was not renewed, is noticed
HUB_DELAY = 0.5  # seconds in which changes of the hub's objects are collected: each decision reads them all
HUB_RECHECK = 60.0  # seconds: leases age without an event
HUB = ObjectRef(resources.CLUSTER_MANAGERS, ObjectKey.cluster(""))  # stands for the hub itself, which is no one object
HUB_KINDS = frozenset(resource for resource, _ in (*PROCESS_SOURCES.values(), *HUB_SOURCES.values())) - {
    resources.LEASES,
    resources.CONFIG_MAPS,
}
DRIFT = timedelta(seconds=1)


@dataclass(slots=True)
class Fleet:
    """The rows, the recent events and the history of everything that an observer follows."""

    observer: HubObserver
    clock: Clock
    metrics: FindingMetrics = field(default_factory=lambda: FindingMetrics(CollectorRegistry()))
    index: RowIndex = field(default_factory=RowIndex)
    recent: RecentEvents = field(default_factory=RecentEvents)
    related: RelatedObjects = field(default_factory=RelatedObjects)
    history: HistoryLog = field(default_factory=HistoryLog)
    limited_history: HistoryLog = field(default_factory=HistoryLog)  # for people who may not list certificate requests
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # what was known at first has its rows
    _waiting: dict[ObjectRef, None] = field(default_factory=dict)
    _touched: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _later: DelayQueue[ObjectRef] = field(init=False)

    def __post_init__(self) -> None:
        self._later = DelayQueue(self._enqueue)

    @property
    def revision(self) -> int:
        return self.index.revision + self.recent.revision

    async def run(self) -> None:
        """Keep the rows up to date; runs until cancelled."""
        self.observer.subscribe(self.handle)
        self._enqueue(HUB)
        started = self._clock_offset()
        try:
            while True:
                while self._waiting:
                    self._decide_some()
                    await asyncio.sleep(0)
                self.ready.set()
                self._touched.clear()
                await within_tick(self._touched.wait())
                if abs(self._clock_offset() - started) > DRIFT:
                    started = self._clock_offset()
                    self._waiting.update(dict.fromkeys(self.index.objects))
        finally:
            self._later.clear()

    def handle(self, delta: Delta) -> None:
        ref = ObjectRef(delta.resource, delta.key)
        if delta.resource in HUB_KINDS or delta.resource in (resources.SECRETS, resources.CONFIG_MAPS):
            self._later.add(HUB, asyncio.get_running_loop().time() + HUB_DELAY)
        if delta.resource is resources.LEASES:
            self._notice_lease(ref.key)
            return
        if delta.resource is not resources.CERTIFICATE_SIGNING_REQUESTS:
            if delta.resource in sources.SHOWN_KINDS and delta.resource not in HUB_KINDS:
                self._enqueue(ref)
            return
        cluster = head_of(delta.new_raw).labels.get(Label.CLUSTER_NAME, "") if delta.new_raw is not None else ""
        for name in self.related.put(ref, cluster):
            self._enqueue(ObjectRef(resources.MANAGED_CLUSTERS, ObjectKey.cluster(name)))

    async def change(self, since: int) -> None:
        """Wait until something has changed since a revision, but no longer than a tick."""
        if self.revision == since:
            await within_tick(self._changed.wait())

    def read(self, ref: ObjectRef) -> sources.SourcedObject | None:
        """Return an object with its source, None when it is gone or not to be shown."""
        obj = self.observer.cache.get(ref.resource, ref.key)
        source = sources.find_source(ref.resource, obj) if obj is not None else None
        return None if obj is None or source is None else (source, obj)

    def _clock_offset(self) -> timedelta:
        """Return the difference between the clock and the loop's time: it changes when the clock is set."""
        return self.clock.now() - datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)

    def _enqueue(self, ref: ObjectRef) -> None:
        self._waiting[ref] = None
        self._touched.set()

    def _notice_lease(self, key: ObjectKey) -> None:
        """Decide about a cluster again when its agent is back; a lease that is not renewed is noticed by its time."""
        cluster = ObjectRef(resources.MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace))
        known = self.index.objects.get(cluster)
        if known is not None and any(row.health == InventoryHealth.FAILING for row in known.rows):
            self._enqueue(cluster)

    def _decide_hub(self, now: datetime) -> None:
        self._later.add(HUB, asyncio.get_running_loop().time() + HUB_RECHECK)
        results = decide_own_findings(HubState(self.observer.own_facts(), now))
        rows = hub_rows(each for each in results if each.check != "facts")  # the page names what is not shown
        self._put(
            HUB, ObjectRows(sources.HUB_SOURCE, "", rows, rows, findings=tuple(each for _, each in urgent(results)))
        )

    def _decide_some(self) -> None:
        now, before = self.clock.now(), self.revision
        for ref in list(islice(self._waiting, OBJECTS_AT_ONCE)):
            del self._waiting[ref]
            self._later.drop(ref)
            try:
                self._decide(ref, now)
            except Exception:  # noqa: BLE001 - an unexpected object must not hide the others
                structlog.get_logger("watchword.dashboard").exception("an object cannot be shown", object=str(ref))
                self._forget(ref)
        if self.revision != before:
            self._changed.set()
            self._changed = asyncio.Event()

    def _decide(self, ref: ObjectRef, now: datetime) -> None:
        if ref == HUB:
            self._decide_hub(now)
            return
        found = self.read(ref)
        if found is None:
            self._forget(ref)
            return
        source, obj = found
        if source.name == EVENT_ROWS:
            self.related.put(ref, regarded_cluster(obj))
        about = self.related.about(ref.key.name) if source is sources.CLUSTERS else ()
        requests = [self.read(each) for each in about if each.resource is sources.REQUESTS.resource]
        has_lease = source is sources.CLUSTERS and bool(self.observer.cache.informers(resources.LEASES))
        lease = self.read(ObjectRef(resources.LEASES, ObjectKey(ref.key.name, CLUSTER_LEASE))) if has_lease else None
        decided = decide_object_rows(found, [each for each in requests if each is not None], now=now, lease=lease)
        old = self.index.objects.get(ref)
        if old is not None:
            self.history.record(old.rows, decided.rows, now)
            self.limited_history.record(old.limited, decided.limited, now)
        self._put(ref, decided)
        self.recent.put(ref, decided.events)
        if decided.recheck is not None:
            delay = (decided.recheck - now).total_seconds()
            self._later.add(ref, asyncio.get_running_loop().time() + delay)

    def _put(self, ref: ObjectRef, new: ObjectRows | None) -> None:
        old = self.index.objects.get(ref)
        self.metrics.exchange(old.findings if old is not None else (), new.findings if new is not None else ())
        self.index.put(ref, new)

    def _forget(self, ref: ObjectRef) -> None:
        self._put(ref, None)
        self.recent.put(ref, ())
        self.related.put(ref, "")
        if ref.resource is resources.MANAGED_CLUSTERS:
            self.history.forget(ref.key.name)
            self.limited_history.forget(ref.key.name)


async def within_tick(waiting: Coroutine[Any, Any, object]) -> None:
    """Wait for something, but no longer than a tick."""
    try:
        async with asyncio.timeout(TICK):
            await waiting
    except TimeoutError:
        return
