"""The controllers of work as data."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.kube.rest_mapper import RestMapper
from watchword.runtime.api_server_connection import HUB, ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager
from watchword.runtime.reconcile import ControllerSpec, Trigger
from watchword.work.applied_work import AppliedWorkReconciler
from watchword.work.applied_work_store import AppliedWorkStore
from watchword.work.applier import Applier
from watchword.work.executor import ExecutorPermissions
from watchword.work.manifest_work import WorkReconciler
from watchword.work.object_watches import ObjectWatches
from watchword.work.objects import OBJECT_INDEX, ObjectClient, ObjectRemover, SharedObjects, index_by_object
from watchword.work.status import FeedbackThrottle, WorkStatusReporter

WORKERS = 4
DEADLINE = timedelta(minutes=5)
ADDRESS_CACHE_SECONDS = 60.0


class WorkTiming(Struct, frozen=True):
    """How often works are looked at, and how long applied objects outlive a lost hub."""

    eviction_grace: timedelta = timedelta(minutes=60)
    feedback_interval: timedelta = timedelta(seconds=30)
    recheck: timedelta = timedelta(minutes=4)  # of works to which nothing has happened


class WorkContext(Struct, frozen=True, kw_only=True):
    """What the controllers of work are made of."""

    cluster_name: str
    agent_id: str  # tells this agent from others on the same cluster, the same after every restart
    hub_address: Callable[[], str]
    manager: Manager  # runs the watches of applied objects
    cluster: ApiServerConnection
    hub: ApiServerConnection  # refuses writes that are not in the name of this cluster
    clock: Clock
    random: Random
    timing: WorkTiming = field(default_factory=WorkTiming)
    protected_namespaces: frozenset[str] = frozenset()  # that only works with an executor may change


def controllers(parts: WorkContext) -> Iterable[ControllerSpec]:
    cluster, hub, name, timing = parts.cluster, parts.hub, parts.cluster_name, parts.timing
    hub.cache.informer(MANIFEST_WORKS, WatchScope(namespace=name))
    cluster.cache.index(APPLIED_MANIFEST_WORKS, OBJECT_INDEX, index_by_object)
    watches = ObjectWatches(cluster.client, parts.random, options=cluster.follow)
    parts.manager.add_job("applied objects", watches.run)
    objects, rest_mapper = ObjectClient(cluster.client, watches), RestMapper(cluster.client)
    remover = ObjectRemover(objects, rest_mapper)
    applied_work_store = AppliedWorkStore(
        cluster.cache, cluster.client, cluster.status, _HubAddress(parts.hub_address), parts.agent_id
    )
    shared = SharedObjects(cluster.cache, applied_work_store, hub.cache, name)
    works = WorkReconciler(
        hub,
        applied_work_store,
        rest_mapper,
        Applier(objects, ExecutorPermissions(cluster.client)),
        remover,
        watches,
        shared,
        WorkStatusReporter(hub.status, objects, FeedbackThrottle(timing.feedback_interval), parts.clock),
        parts.random,
        timing.recheck,
        parts.protected_namespaces,
    )
    records = AppliedWorkReconciler(
        cluster,
        hub,
        name,
        applied_work_store,
        remover,
        watches,
        shared,
        parts.clock,
        timing.eviction_grace,
        timing.recheck,
        works.trigger_source,
    )
    return _specs(works, records, shared)


def _specs(
    works: WorkReconciler, records: AppliedWorkReconciler, shared: SharedObjects
) -> tuple[ControllerSpec, ControllerSpec]:
    """Let each trigger the other: a work looks at its record and those it shares objects with, a record at its work."""

    def record_of(work: Object) -> Iterable[ObjectKey]:
        return [shared.store.key(work["metadata"]["name"])]

    return (
        ControllerSpec(
            "work",
            MANIFEST_WORKS,
            works,
            (Trigger(APPLIED_MANIFEST_WORKS, shared.works_affected_by),),
            workers=WORKERS,
            deadline=DEADLINE,
            connection_name=HUB,
            trigger_source=works.trigger_source,
        ),
        ControllerSpec(
            "applied-work",
            APPLIED_MANIFEST_WORKS,
            records,
            (Trigger(MANIFEST_WORKS, record_of, connection_name=HUB),),
            workers=WORKERS,
            deadline=DEADLINE,
            trigger_source=records.trigger_source,
        ),
    )


class _HubAddress(Struct):
    """The hub's address, not read from its file for every object."""

    read: Callable[[], str]
    _text: str = ""
    _until: float = float("-inf")

    def __call__(self) -> str:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._text, self._until = self.read(), now + ADDRESS_CACHE_SECONDS
        return self._text
