"""The rows that are kept for each object are those that the whole fleet would be shown with."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import orjson
import pytest
from tests.dashboard.harness import ShiftedClock, a_request
from tests.dashboard.test_board import set_conditions
from tests.helpers.credential_fleet import HOUR, CredentialFleet, a_condition

from watchword.api.meta import ObjectKey, ObjectRef
from watchword.api.names import ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, MANAGED_CLUSTERS
from watchword.dashboard.fleet import OBJECTS_AT_ONCE, Fleet
from watchword.dashboard.process import observe_readable
from watchword.dashboard.row_index import REMOVALS_KEPT, ObjectRows, RowIndex
from watchword.dashboard.rows import Row, inventory_rows
from watchword.dashboard.server import BrowserCopy
from watchword.dashboard.sources import CLUSTERS, DASHBOARD_SOURCES, Source, SourcedObject, gather_facts
from watchword.dashboard.viewers import EVERYTHING, Visibility
from watchword.health.facts import PULL_SECRETS
from watchword.health.finding import FindingMetrics
from watchword.health.inventory import build_inventory
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.registration.grpc.driver import CA_BUNDLE, SERVER
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import running
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.raw_objects import projected
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # the fleet is everything that the hub holds

INSTANTS = [
    *(timedelta(minutes=minutes) for minutes in (0, 5, 14, 16, 55, 100, 340, 370)),
    *(HOUR * hours for hours in (7, 9, 17, 18.5, 19, 19.3, 20, 22.9, 23.5, 24, 25, 40)),
]
PLACES = [*(f"edge-{number}" for number in range(1, 10)), "shop", "default"]


@asynccontextmanager
async def following(plane: Plane, clock: Clock | None = None) -> AsyncIterator[Fleet]:
    """Follow the hub, and keep its rows."""
    async with observe_readable(plane.client()) as observer:
        fleet = Fleet(observer, clock or plane.clock)
        async with running(fleet.run(), "dashboard rows"):
            await fleet.ready.wait()
            yield fleet


@dataclass
class BrowserRows:
    """What a browser holds after the messages that it was sent."""

    copy: BrowserCopy
    rows: dict[str, object] = field(default_factory=dict)

    def receive(self, seen: Visibility) -> Counter[bytes]:
        """Take messages until the browser has everything; return its rows."""
        left = 1
        while left:
            data = orjson.loads(self.copy.next_message(seen).partition(b"data: ")[2])
            assert not set(data["gone"]) & set(data["put"])
            self.rows = {name: row for name, row in self.rows.items() if name not in data["gone"]} | data["put"]
            left = data["left"]
        return Counter(orjson.dumps(row) for name, row in self.rows.items() if not name.startswith("finding/"))


async def read_everything(client: Client) -> list[SourcedObject]:
    """Read what the dashboard watches, straight from the API server."""
    found: list[SourcedObject] = []
    for source in DASHBOARD_SOURCES:
        scope = source.scope
        listed = await client.list(source.resource, namespace=scope.namespace, labels=scope.labels, fields=scope.fields)
        for obj in listed.items:
            kept = projected(orjson.dumps(obj), source.project) if source.project is not None else orjson.dumps(obj)
            found += [(source, orjson.loads(kept))] if kept is not None else []
    return found


def whole_rows(objects: Iterable[SourcedObject], *, now: datetime) -> Counter[bytes]:
    """Return the rows of a fleet, decided at once."""
    each = list(objects)
    single = [[row] for row in each if row[0].name == PULL_SECRETS]  # several in one state would be one row
    parts = [[row for row in each if row[0].name != PULL_SECRETS], *single]
    inventories = [build_inventory(gather_facts(part), now=now) for part in parts]
    return Counter(orjson.dumps(fields) for found in inventories for fields in inventory_rows(found, now=now))


def limit_objects(objects: Iterable[SourcedObject], seen: Visibility) -> list[SourcedObject]:
    """Return only what a person may see."""
    return [(source, obj) for source, obj in objects if seen.sees(source, source.part(ObjectKey.of(obj)))]


async def a_whole_hub(hub: CredentialFleet) -> None:
    """Write every kind of credential, and requests for certificates."""
    await hub.everything()
    for cluster in ("edge-1", "edge-6", "edge-9"):
        await hub.client.create(CERTIFICATE_SIGNING_REQUESTS, a_request(cluster))
    await asyncio.sleep(1)


async def test_rows_of_each_object_are_those_of_the_whole_fleet_at_any_time(plane: Plane, hub: CredentialFleet) -> None:
    await a_whole_hub(hub)
    start = plane.clock.now()

    async with following(plane) as fleet:
        browser = BrowserRows(BrowserCopy(fleet, {}))
        for instant in INSTANTS:
            await asyncio.sleep(max(0.0, (start + instant - plane.clock.now()).total_seconds()) + 0.01)
            expected = whole_rows(await read_everything(hub.client), now=plane.clock.now())

            assert browser.receive(EVERYTHING) == expected


@pytest.mark.parametrize("seed", range(12))
async def test_browser_holds_what_its_person_may_see_while_rights_and_objects_change(
    plane: Plane, hub: CredentialFleet, seed: int
) -> None:
    await a_whole_hub(hub)
    random = Random(seed)

    async with following(plane) as fleet:
        browser = BrowserRows(BrowserCopy(fleet, {}))
        for step in range(8):
            seen = a_visibility(random)
            objects = await read_everything(hub.client)
            assert browser.receive(seen) == whole_rows(limit_objects(objects, seen), now=plane.clock.now())
            await change_something(hub, random, step)
            await asyncio.sleep(1)


def a_visibility(random: Random) -> Visibility:
    """Return rights on some kinds, wholly or in some places."""
    parts: dict[Source, frozenset[str] | None] = {}
    for source in DASHBOARD_SOURCES:
        some = frozenset(random.sample(PLACES, random.randint(0, len(PLACES))))
        parts[source] = random.choice([None, frozenset(), some] if source.divisible else [None, frozenset()])
    return Visibility(parts)


async def change_something(hub: CredentialFleet, random: Random, step: int) -> None:
    """Change, add or remove an object."""
    cluster = f"edge-{random.randint(1, 5)}"
    if step % 4 == 0:
        said = a_condition(ConditionType.AVAILABLE, random.choice(["True", "Unknown"]), "Tested", f"step {step}")
        await set_conditions(hub.client, "edge-6", said)
    elif step % 4 == 1:
        await hub.addon(cluster, f"extra-{step}")
    elif step % 4 == 2:
        await hub.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster("edge-7" if step == 2 else "edge-8"))
    else:
        await hub.event(cluster, f"step {step}")


async def test_certificate_of_a_server_is_shown_only_to_people_who_may_read_it(
    plane: Plane, hub: CredentialFleet
) -> None:
    kind = SERVER.certificates[0]
    pem = Authority.make("grpc", now=hub.now).certificate.pem.decode()
    await hub.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(CA_BUNDLE, data={kind.field: pem}))
    published = next(
        each
        for each in DASHBOARD_SOURCES
        if each.resource is CONFIG_MAPS and each.scope.namespace == CA_BUNDLE.namespace
    )

    async with following(plane) as fleet:
        counts = [
            BrowserRows(BrowserCopy(fleet, {})).receive(seen).total()
            for seen in (Visibility(), Visibility({published: None}))
        ]

    assert counts == [0, 1]


async def test_rows_are_decided_anew_when_the_clock_is_set(plane: Plane, hub: CredentialFleet) -> None:
    await hub.cluster("edge-1")
    clock = ShiftedClock(plane.clock)

    async with following(plane, clock) as fleet:
        browser = BrowserRows(BrowserCopy(fleet, {}))
        for shift in (timedelta(days=2), timedelta(0)):
            clock.shift = shift
            await asyncio.sleep(60)
            expected = whole_rows(await read_everything(hub.client), now=clock.now())

            assert browser.receive(EVERYTHING) == expected


async def test_other_tasks_run_while_rows_are_decided(plane: Plane, hub: CredentialFleet) -> None:
    await hub.many(50)
    turns = 0

    async with observe_readable(plane.client()) as observer:
        fleet = Fleet(observer, plane.clock)
        async with running(fleet.run(), "dashboard rows"):
            while not fleet.ready.is_set():
                await asyncio.sleep(0)
                turns += 1

    assert turns >= len(fleet.index.objects) / OBJECTS_AT_ONCE > 4


@dataclass(slots=True)
class CountingFleet(Fleet):
    """Counts how often it decides about the hub itself."""

    decisions: int = 0

    def _decide_hub(self, now: datetime) -> None:
        self.decisions += 1
        Fleet._decide_hub(self, now)


async def test_changes_of_the_hubs_objects_are_decided_together(plane: Plane, hub: CredentialFleet) -> None:
    async with observe_readable(plane.client()) as observer:
        fleet = CountingFleet(observer, plane.clock)
        async with running(fleet.run(), "dashboard rows"):
            await asyncio.sleep(10)
            before = fleet.decisions
            for number in range(50):
                await hub.pull_secret("shop", f"account-{number}")
                await asyncio.sleep(0.01)  # virtual
            await asyncio.sleep(10)
            rows = [row for objects in fleet.index.objects.values() for row in objects.rows]

    assert fleet.decisions - before <= 3
    assert sum("account-" in row.fields()["holder"] for row in rows) == 50


def test_reader_that_is_far_behind_compares_everything() -> None:
    index, shown = RowIndex(), ObjectRows(CLUSTERS, "edge-1", (Row("a", b"", 6),), (Row("a", b"", 6),))
    refs = [ObjectRef(MANAGED_CLUSTERS, ObjectKey.cluster(f"edge-{number}")) for number in range(REMOVALS_KEPT + 1)]
    for ref in refs:
        index.put(ref, shown)
    before = index.revision
    for ref in refs[:REMOVALS_KEPT]:
        index.put(ref, None)
    in_time = index.changed_since(before)
    index.put(refs[-1], None)

    assert in_time is not None
    assert set(in_time) == set(refs[:REMOVALS_KEPT])
    assert index.changed_since(before) is None
    assert index.changed_since(index.revision) == []


async def test_metrics_count_findings_until_they_are_mended(plane: Plane, hub: CredentialFleet) -> None:
    await hub.waiting_cluster("new")
    registry = CollectorRegistry()
    labels = {"severity": "warning", "reason": "ClusterPending"}
    async with observe_readable(plane.client()) as observer:
        fleet = Fleet(observer, plane.clock, FindingMetrics(registry))
        async with running(fleet.run(), "dashboard rows"):
            await fleet.ready.wait()
            before = registry.get_sample_value("watchword_findings", labels)
            await plane.client().delete(MANAGED_CLUSTERS, ObjectKey.cluster("new"))
            await asyncio.sleep(60)  # of the plane's time
            after = registry.get_sample_value("watchword_findings", labels)

    assert (before, after) == (1, 0)
