"""What one object contributes to the pages, and who may see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from watchword.admin.recent_events import FleetEvent, collect_fleet_events
from watchword.api.meta import ObjectKey
from watchword.dashboard.rows import Row, decide_rows
from watchword.dashboard.sources import DASHBOARD_SOURCES, REQUESTS, Source, SourcedObject, gather_facts
from watchword.dashboard.visibility import Visibility

NUMBERS = {source: number for number, source in enumerate(DASHBOARD_SOURCES)}


class ObjectRows(Struct, frozen=True, gc=False):
    """The rows and events of one object, and the right that shows them."""

    source: Source
    part: str
    rows: tuple[Row, ...] = ()
    limited: tuple[Row, ...] = ()  # for people who may not list certificate requests
    events: Sequence[FleetEvent] = ()
    recheck: datetime | None = None  # when the time alone may change the rows

    def shown_to(self, seen: Visibility) -> tuple[Row, ...] | None:
        """Return the rows that a person may see, None when they may not see the object."""
        if not seen.sees(self.source, self.part):
            return None
        return self.rows if self.rows is self.limited or seen.sees(REQUESTS) else self.limited


def decide_object_rows(found: SourcedObject, requests: Sequence[SourcedObject], *, now: datetime) -> ObjectRows:
    """Decide about an object from its content, the certificate requests for it, and the instant alone."""
    source, key = found[0], ObjectKey.of(found[1])
    facts, number = gather_facts([found]), NUMBERS[source]
    limited = full = decide_rows(facts, str(key), number=number, now=now)
    if requests:
        full = decide_rows(gather_facts([found, *requests]), str(key), number=number, now=now)
    events = collect_fleet_events((*facts.hub.clusters, *facts.hub.addons), facts.events)
    return ObjectRows(source, source.part(key), full.rows, limited.rows, events, full.recheck)
