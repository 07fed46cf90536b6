"""Every row by the object that it is about: who may see it, and what changed since."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter

from msgspec import Struct, field

from watchword.api.meta import ObjectKey, ObjectRef
from watchword.dashboard.rows import Row, decide_rows
from watchword.dashboard.sources import DASHBOARD_SOURCES, REQUESTS, Source, SourcedObject, gather_facts
from watchword.dashboard.viewers import Visibility
from watchword.health.finding import Finding
from watchword.health.recent_events import FleetEvent, collect_fleet_events

NUMBERS = {source: number for number, source in enumerate(DASHBOARD_SOURCES)}


class ObjectRows(Struct, frozen=True, gc=False):
    """The rows and events of one object, and the right that shows them."""

    source: Source
    part: str
    rows: tuple[Row, ...] = ()
    limited: tuple[Row, ...] = ()  # for people who may not list certificate requests
    events: Sequence[FleetEvent] = ()
    recheck: datetime | None = None  # when the time alone may change the rows
    findings: tuple[Finding, ...] = ()  # with what is not shown to everyone

    def shown_to(self, seen: Visibility) -> tuple[Row, ...] | None:
        """Return the rows that a person may see, None when they may not see the object."""
        if not seen.sees(self.source, self.part):
            return None
        return self.rows if self.rows is self.limited or seen.sees(REQUESTS) else self.limited


def decide_object_rows(
    found: SourcedObject, requests: Sequence[SourcedObject], *, now: datetime, lease: SourcedObject | None = None
) -> ObjectRows:
    source, key = found[0], ObjectKey.of(found[1])
    known = [found] if lease is None else [found, lease]
    facts, number = gather_facts(known), NUMBERS[source]
    limited = full = decide_rows(facts, str(key), number=number, now=now)
    if requests:
        full = decide_rows(gather_facts([*known, *requests]), str(key), number=number, now=now)
    events = collect_fleet_events((*facts.clusters, *facts.addons), facts.events)
    return ObjectRows(source, source.part(key), full.rows, limited.rows, events, full.recheck, full.findings)


class NumberedEvent(Struct, frozen=True, gc=False):
    """An event and the object from which it was read; no two share a number."""

    number: int
    event: FleetEvent
    ref: ObjectRef

    @property
    def order(self) -> tuple[str, int]:
        return self.event.at, self.number


class RecentEvents(Struct):
    """Events by time; an event keeps its number while its object contains it."""

    revision: int = 0
    _ordered: list[NumberedEvent] = field(default_factory=list)
    _of_object: dict[ObjectRef, dict[FleetEvent, NumberedEvent]] = field(default_factory=dict)
    _last: int = 0

    def put(self, ref: ObjectRef, events: Sequence[FleetEvent]) -> None:
        held = self._of_object.get(ref, {})
        wanted = dict.fromkeys(events)
        for event in [each for each in held if each not in wanted]:
            self._ordered.pop(bisect_left(self._ordered, held.pop(event).order, key=attrgetter("order")))
            self.revision += 1
        for event in [each for each in wanted if each not in held]:
            self._last += 1
            held[event] = NumberedEvent(self._last, event, ref)
            insort(self._ordered, held[event], key=attrgetter("order"))
            self.revision += 1
        if held:
            self._of_object[ref] = held
        else:
            self._of_object.pop(ref, None)

    def latest(self, count: int, is_visible: Callable[[ObjectRef], bool]) -> list[NumberedEvent]:
        """Return the latest events of visible objects, the last one first; of equal ones the latest."""
        found: dict[tuple[str, str], NumberedEvent] = {}
        for each in reversed(self._ordered):
            told = each.event.about, each.event.what
            if told not in found and is_visible(each.ref):
                found[told] = each
                if len(found) == count:
                    break
        return list(found.values())


REMOVALS_KEPT = 4096


class RowIndex(Struct):
    """Rows by object; each change has a number, so that a reader asks only for what came later."""

    objects: dict[ObjectRef, ObjectRows] = field(default_factory=dict)
    revision: int = 0
    _changed: dict[ObjectRef, int] = field(default_factory=dict)  # the latest change last
    _forgotten: int = 0  # the revision up to which removals are not kept
    _parts: dict[Source, dict[str, dict[ObjectRef, None]]] = field(default_factory=dict)
    _places: frozenset[str] | None = None

    def put(self, ref: ObjectRef, new: ObjectRows | None) -> None:
        """Replace the rows of an object; None removes them."""
        old = self.objects.pop(ref, None)
        moved = old is None or new is None or (old.source, old.part) != (new.source, new.part)
        if old is not None and moved:
            self._leave(ref, old)
        if new is not None:
            self.objects[ref] = new
            if moved:
                self._enter(ref, new)
        if _content(old) == _content(new):
            return
        self.revision += 1
        self._changed.pop(ref, None)
        self._changed[ref] = self.revision
        if len(self._changed) - len(self.objects) > REMOVALS_KEPT:
            self._changed = {each: at for each, at in self._changed.items() if each in self.objects}
            self._forgotten = self.revision

    def changed_since(self, revision: int) -> Sequence[ObjectRef] | None:
        """Return the objects that changed after a revision, None when that is not known any more."""
        if revision < self._forgotten:
            return None
        found = []
        for ref in reversed(self._changed):
            if self._changed[ref] <= revision:
                break
            found.append(ref)
        return found

    def visible(self, seen: Visibility) -> Iterator[ObjectRef]:
        """Yield every object that a person may see."""
        for source, parts in self._parts.items():
            allowed = seen.parts_of(source)
            for part in parts if allowed is None else sorted(allowed & parts.keys()):
                yield from parts[part]

    def in_part(self, part: str) -> Iterator[ObjectRef]:
        for parts in self._parts.values():
            yield from parts.get(part, ())

    def shown(self, ref: ObjectRef, seen: Visibility) -> tuple[Row, ...] | None:
        """Return the rows of an object that a person may see, None when they may not see the object."""
        found = self.objects.get(ref)
        return None if found is None else found.shown_to(seen)

    def places(self) -> frozenset[str]:
        if self._places is None:
            self._places = frozenset(part for parts in self._parts.values() for part in parts if part)
        return self._places

    def _enter(self, ref: ObjectRef, rows: ObjectRows) -> None:
        self._parts.setdefault(rows.source, {}).setdefault(rows.part, {})[ref] = None
        if rows.part and self._places is not None and rows.part not in self._places:
            self._places = None

    def _leave(self, ref: ObjectRef, rows: ObjectRows) -> None:
        parts = self._parts[rows.source]
        parts[rows.part].pop(ref)
        if not parts[rows.part]:
            parts.pop(rows.part)
            self._places = None


def _content(rows: ObjectRows | None) -> object:
    return None if rows is None else (rows.source, rows.part, rows.rows, rows.limited)
