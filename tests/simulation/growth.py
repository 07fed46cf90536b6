"""Whether nothing grows while a fleet is left in peace: objects, tasks, timers and connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import orjson
from msgspec import Struct
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.memory_network import SimulatedLoop
from tests.simulation.planes import EVENTS_STAY
from tests.simulation.settings import HOUR

from watchword.api.time import parse_rfc3339
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import Record

TEMPORARY = EVENTS_STAY + HOUR
"""Younger objects do not count: a control plane deletes none of its Events and decided requests later."""

MOST_MORE, CLUSTERS_FOR_ONE = 5, 4
"""Tasks, timers or connections more, and clusters for each further one: some program is at work at any instant."""


class Sizes(Struct, frozen=True):
    """How many there are of everything that could grow."""

    objects: Counter[tuple[str, str]]  # control plane, kind → how many
    running: Counter[str]  # what the process holds → how many

    @classmethod
    def measure(cls, fleet: SimulatedFleet, *, created_before: datetime | None = None) -> Sizes:
        """Count what there is now; with an instant, the objects that are older than it."""
        stores = {"the hub": fleet.hub.store, **{member.name: member.plane.store for member in fleet.members.values()}}
        objects = Counter(
            {
                (name, bucket): sum(1 for _ in _older(store, bucket, created_before))
                for name, store in stores.items()
                for bucket in store.buckets()
            }
        )
        return cls(objects, _running(fleet))


def find_growth(before: Sizes, after: Sizes, clusters: int) -> Iterator[str]:
    """Yield what there is more of after a day in which nothing but renewals happened."""
    for (plane, kind), count in (after.objects - before.objects).items():
        yield f"{plane} has {count} more {kind} after a quiet day, of {after.objects[plane, kind]}"
    for what, count in (after.running - before.running).items():
        if count > MOST_MORE + clusters // CLUSTERS_FOR_ONE:
            yield f"the programs have {count} more {what} after a quiet day, of {after.running[what]}"


def _running(fleet: SimulatedFleet) -> Counter[str]:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]
    network = loop.network if isinstance(loop, SimulatedLoop) else None
    return Counter(
        {
            "tasks": len(asyncio.all_tasks()),
            "timers": sum(not timer.cancelled() for timer in timers),
            "streams": sum(len(link.streams) for link in fleet.links),
            "connections": 0 if network is None else len(network.connections),
        }
    )


def _older(store: MemoryStore, bucket: str, than: datetime | None) -> Iterator[Record]:
    for record in store.records(bucket):
        created = parse_rfc3339(orjson.loads(record.body)["metadata"]["creationTimestamp"]) if than else None
        if than is None or created is None or created < than:
            yield record
