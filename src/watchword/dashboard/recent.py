"""The latest events of the fleet, kept in order while objects change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from watchword.admin.recent_events import FleetEvent
from watchword.api.meta import ObjectRef


class NumberedEvent(Struct, frozen=True, gc=False):
    """An event with the object that tells of it; no two share a number."""

    number: int
    event: FleetEvent
    ref: ObjectRef

    @property
    def order(self) -> tuple[str, int]:
        """What sorts events by time."""
        return self.event.at, self.number


class RecentEvents(Struct):
    """Events by time; an event keeps its number while its object tells of it."""

    revision: int = 0
    _ordered: list[NumberedEvent] = field(default_factory=list)
    _of_object: dict[ObjectRef, dict[FleetEvent, NumberedEvent]] = field(default_factory=dict)
    _last: int = 0

    def put(self, ref: ObjectRef, events: Sequence[FleetEvent]) -> None:
        """Replace the events that an object tells of."""
        held = self._of_object.get(ref, {})
        wanted = dict.fromkeys(events)
        for event in [each for each in held if each not in wanted]:
            self._ordered.pop(bisect_left(self._ordered, held.pop(event).order, key=_order))
            self.revision += 1
        for event in [each for each in wanted if each not in held]:
            self._last += 1
            held[event] = NumberedEvent(self._last, event, ref)
            insort(self._ordered, held[event], key=_order)
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


def _order(event: NumberedEvent) -> tuple[str, int]:
    return event.order
