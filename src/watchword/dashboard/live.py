"""Sends each browser what it may see, and then only what changes, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from operator import itemgetter

import orjson
from msgspec import Struct, field

from watchword.api.meta import ObjectRef
from watchword.dashboard.fleet import Fleet
from watchword.dashboard.row_index import NumberedEvent, RowIndex
from watchword.dashboard.rows import HEALTHS, Row, clean, event_document, seconds
from watchword.dashboard.viewers import Visibility
from watchword.health.states import InventoryHealth

FRAME = 0.5  # seconds between two messages at least, once a browser has everything
OBJECTS_AT_ONCE = 256  # whose rows are in one message at most
FIRST_IN_VIEW = 64
EVENTS_SHOWN = 50
RETRY, END = b"retry: 2000\n\n", b"event: end\ndata: {}\n\n"


async def stream_rows(
    fleet: Fleet, look: Callable[[], Awaitable[Visibility | None]], viewer: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Yield everything in parts, what needs attention first, then what changes; ends when the session does."""
    yield RETRY
    await fleet.ready.wait()
    browser = BrowserCopy(fleet, {b"healths": orjson.dumps(HEALTHS), b"viewer": orjson.dumps(dict(viewer))})
    while (seen := await look()) is not None:
        yield browser.next_message(seen)
        await asyncio.sleep(0 if browser.left else FRAME)
        if not browser.left:
            await fleet.change(browser.revision)
    yield END


class BrowserCopy(Struct):
    """What one browser holds, and what it has to be sent so that it holds what it may see."""

    fleet: Fleet
    greeting: Mapping[bytes, bytes]  # parts of the first message alone
    revision: int = -1
    _indexed: int = -1
    _seen: Visibility | None = None
    _held: dict[ObjectRef, tuple[Row, ...]] = field(default_factory=dict)
    _left: dict[ObjectRef, None] = field(default_factory=dict)
    _told: tuple[int, ...] | None = None  # the numbers of the events that it holds
    _events_at: tuple[Visibility, int] | None = None
    _unseen: Mapping[str, str] | None = None

    @property
    def left(self) -> int:
        """How many objects have not been compared yet."""
        return len(self._left)

    def next_message(self, seen: Visibility) -> bytes:
        """Return the next difference; what may not be seen any more is removed by the first message after that."""
        first = self._seen is None
        gone = self._take_up(seen)
        put: list[bytes] = []
        for ref in list(islice(self._left, OBJECTS_AT_ONCE)):
            del self._left[ref]
            gone += self._compare(ref, put)
        parts = {
            b"now": orjson.dumps(seconds(self.fleet.clock.now())),
            b"put": b"{%b}" % b",".join(put),
            b"gone": orjson.dumps(gone),
            b"left": orjson.dumps(len(self._left)),
            **self._changed_parts(seen),
            **(self.greeting if first else {}),
        }
        body = b",".join(b'"%b":%b' % pair for pair in parts.items())
        return b"event: %b\ndata: {%b}\n\n" % (b"board" if first else b"update", body)

    def _take_up(self, seen: Visibility) -> list[str]:
        """Note what has to be compared; return the ids of rows that may not be seen any more."""
        index = self.fleet.index
        changed = index.changed_since(self._indexed) if seen is self._seen else None
        self._seen, self.revision, self._indexed = seen, self.fleet.revision, index.revision
        if changed is not None:
            self._left.update(dict.fromkeys(changed))
            return []
        self._left = order_for_view(index, seen)
        hidden = [ref for ref in self._held if ref not in self._left]
        return [row.id for ref in hidden for row in self._held.pop(ref)]

    def _compare(self, ref: ObjectRef, put: list[bytes]) -> list[str]:
        """Take over the rows of one object; return the ids of those that are gone."""
        assert self._seen is not None
        held, shown = self._held.pop(ref, ()), self.fleet.index.shown(ref, self._seen)
        if shown is not None:
            self._held[ref] = shown
        known = {row.id: row.entry for row in held}
        put += [row.entry for row in shown or () if known.pop(row.id, None) != row.entry]
        return list(known)

    def _changed_parts(self, seen: Visibility) -> dict[bytes, bytes]:
        """Return what else differs from what was sent before."""
        parts, unseen = {}, seen.explain(self.fleet.observer.unseen)
        if unseen != self._unseen:
            parts[b"unseen"] = orjson.dumps({name: clean(why) for name, why in sorted(unseen.items())})
            self._unseen = unseen
        if (
            self._events_at is None
            or self._events_at[0] is not seen
            or self._events_at[1] != self.fleet.recent.revision
        ):
            self._events_at = seen, self.fleet.recent.revision
            latest = self.fleet.recent.latest(EVENTS_SHOWN, lambda ref: self.fleet.index.shown(ref, seen) is not None)
            parts |= self._tell_events(latest)
        return parts

    def _tell_events(self, latest: Sequence[NumberedEvent]) -> dict[bytes, bytes]:
        numbers, known = tuple(each.number for each in latest), frozenset(self._told or ())
        if numbers == self._told:
            return {}
        self._told = numbers
        return {
            b"events": orjson.dumps(
                [
                    (each.number if each.number in known else {"number": each.number, **event_document(each.event)})
                    for each in latest
                ]
            )
        }


def order_for_view(index: RowIndex, seen: Visibility) -> dict[ObjectRef, None]:
    """Return everything that a person may see: what needs attention first, then what ends first."""
    shown = {ref: index.shown(ref, seen) or () for ref in index.visible(seen)}
    affected = [ref for ref, rows in shown.items() if any(row.health < InventoryHealth.DUE for row in rows)]
    ends = ((row.expires, ref) for ref, rows in shown.items() for row in rows if row.expires is not None)
    ending = nsmallest(FIRST_IN_VIEW, ends, key=itemgetter(0))
    return dict.fromkeys((*affected, *(ref for _, ref in ending), *shown))
