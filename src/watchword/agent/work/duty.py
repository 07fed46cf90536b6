"""Puts the work part of the agent together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from watchword.agent.agent import HUB, DutyParts
from watchword.agent.hub_whereabouts import origin_of
from watchword.agent.options import AgentOptions
from watchword.agent.work.applying import Applier
from watchword.agent.work.catalog import Catalog
from watchword.agent.work.executor import Permits
from watchword.agent.work.ledger import Ledger
from watchword.agent.work.objects import Objects
from watchword.agent.work.pace import Pace
from watchword.agent.work.record import RecordReconciler
from watchword.agent.work.releasing import Releaser
from watchword.agent.work.reporting import Reporter
from watchword.agent.work.watches import ObjectWatches
from watchword.agent.work.work import WorkReconciler
from watchword.agent.work.writing import Writer
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import ControllerSpec, Wake

WORKERS = 4
DEADLINE = timedelta(minutes=5)
ADDRESS_GOOD_FOR = 60.0


def work_duty(parts: DutyParts) -> Iterable[ControllerSpec]:
    """Apply the works that the hub hands to this cluster, and remove what is gone."""
    cluster, hub, name = parts.cluster, parts.hub, parts.options.cluster_name
    hub.cache.informer(MANIFEST_WORKS, Scope(namespace=name))
    cluster.cache.informer(APPLIED_MANIFEST_WORKS)
    watches = ObjectWatches(cluster.client, parts.random, options=cluster.follow)
    parts.add_job("applied objects", watches.run)
    objects, catalog = Objects(cluster.client, watches), Catalog(cluster.client)
    releaser = Releaser(objects, catalog)
    address = _Address(lambda: origin_of(parts.hub_entry()))
    ledger = Ledger(cluster.cache, cluster.client, cluster.status, address, agent_id(parts.options))
    works = WorkReconciler(
        hub,
        ledger,
        catalog,
        Applier.of(Writer(objects, Permits(cluster.client))),
        releaser,
        watches,
        Reporter(hub.status, objects, Pace(parts.options.feedback_interval), parts.clock),
        parts.random,
        parts.options.work_recheck,
    )
    records = RecordReconciler(
        cluster,
        hub,
        name,
        ledger,
        releaser,
        watches,
        parts.clock,
        parts.options.eviction_grace,
        parts.options.work_recheck,
        works.bell,
    )
    return _specs(works, records, name, ledger)


def _specs(
    works: WorkReconciler, records: RecordReconciler, cluster: str, ledger: Ledger
) -> tuple[ControllerSpec, ControllerSpec]:
    """Let each wake the other: a work looks at its record, and a record at its work."""

    def work_of(record: Object) -> Iterable[ObjectKey]:
        work = (record.get("spec") or {}).get("manifestWorkName")
        return [ObjectKey(cluster, work)] if isinstance(work, str) and work else []

    def record_of(work: Object) -> Iterable[ObjectKey]:
        return [ledger.key(work["metadata"]["name"])]

    return (
        ControllerSpec(
            "work",
            MANIFEST_WORKS,
            works,
            (Wake(APPLIED_MANIFEST_WORKS, work_of),),
            workers=WORKERS,
            deadline=DEADLINE,
            origin=HUB,
            bell=works.bell,
        ),
        ControllerSpec(
            "applied-work",
            APPLIED_MANIFEST_WORKS,
            records,
            (Wake(MANIFEST_WORKS, record_of, origin=HUB),),
            workers=WORKERS,
            deadline=DEADLINE,
            bell=records.bell,
        ),
    )


def agent_id(options: AgentOptions) -> str:
    """Return what tells this agent from others on the same cluster, the same after every restart."""
    return f"{options.namespace}/{options.hub_secret}"


@dataclass
class _Address:
    """The hub's address, not read from its file for every object."""

    read: Callable[[], str]
    _text: str = field(default="", init=False)
    _until: float = field(default=float("-inf"), init=False)

    def __call__(self) -> str:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._text, self._until = self.read(), now + ADDRESS_GOOD_FOR
        return self._text
