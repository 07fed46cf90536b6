"""Sends each browser what it may see, and then only what changes, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from watchword.admin.hub_observer import HubObserver
from watchword.dashboard.board import HEALTHS, Board, build_board, changed_rows, seconds
from watchword.dashboard.history import HistoryLog
from watchword.dashboard.sources import FleetFacts, read_facts
from watchword.dashboard.visibility import EVERYTHING, Visibility, limit_facts
from watchword.runtime.clock import Clock

FRAME = 0.5  # seconds between two boards at least
SHARE = 10  # a board that took long to build is followed by a pause of so many times that long
TICK = 15.0  # seconds after which a board is built again though nothing changed: health depends on the time
RETRY = b"retry: 2000\n\n"


@dataclass(slots=True)
class BoardBuilder:
    """Builds a board for each person at most once per change; keeps the history of all of them."""

    observer: HubObserver
    clock: Clock
    history: HistoryLog = field(default_factory=HistoryLog)
    _facts: tuple[int, FleetFacts] | None = None
    _boards: dict[int, tuple[Visibility, int, float, Board]] = field(default_factory=dict)
    _cost: float = 0.0

    @property
    def pause(self) -> float:
        """How long to wait between two boards."""
        return max(FRAME, self._cost * SHARE)

    def facts(self) -> FleetFacts:
        """Return what is known now, read once per change."""
        if self._facts is None or self._facts[0] != self.observer.changes:
            self._facts = self.observer.changes, read_facts(self.observer)
        return self._facts[1]

    def board(self, seen: Visibility) -> Board:
        """Return the board of what a person may see."""
        loop = asyncio.get_running_loop()
        held, changes, began = self._boards.get(id(seen)), self.observer.changes, loop.time()
        if held is not None and held[0] is seen and held[1] == changes and began - held[2] < TICK:
            return held[3]
        now = self.clock.now()
        board = build_board(limit_facts(self.facts(), seen), now=now)
        if seen.everything:
            self.history.record(board.rows, now)
        self._cost = loop.time() - began
        self._boards = {key: each for key, each in self._boards.items() if began - each[2] < 2 * TICK}
        self._boards[id(seen)] = seen, changes, began, board
        return board

    async def watch(self) -> None:
        """Keep the history while no browser looks; runs until cancelled."""
        while True:
            changes = self.observer.changes
            self.board(EVERYTHING)
            await asyncio.sleep(self.pause)
            await wait_for_change(self.observer, changes)


async def stream_boards(
    builder: BoardBuilder, look: Callable[[], Awaitable[Visibility | None]], viewer: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Yield the whole board, then what changes; ends when the session does."""
    yield RETRY
    held: Mapping[str, bytes] = {}
    first = True
    while (seen := await look()) is not None:
        changes = builder.observer.changes
        board = builder.board(seen)
        put, gone = changed_rows(held, board.rows)
        yield encode_update(board, put, gone, viewer if first else None)
        held, first = board.rows, False
        await asyncio.sleep(builder.pause)
        await wait_for_change(builder.observer, changes)
    yield b"event: end\ndata: {}\n\n"


async def wait_for_change(observer: HubObserver, since: int) -> None:
    """Wait for the next change, but no longer than a tick."""
    try:
        async with asyncio.timeout(TICK):
            await observer.change(since)
    except TimeoutError:
        return


def encode_update(
    board: Board, put: Mapping[str, bytes], gone: Sequence[str], viewer: Mapping[str, str] | None
) -> bytes:
    """Return one event; the rows are JSON already."""
    parts = {
        b"now": orjson.dumps(seconds(board.now)),
        b"put": _object(put),
        b"gone": orjson.dumps(gone),
        b"events": board.events,
        b"unseen": board.unseen,
    }
    if viewer is not None:
        parts |= {b"healths": orjson.dumps(HEALTHS), b"viewer": orjson.dumps(dict(viewer))}
    body = b",".join(b'"%b":%b' % pair for pair in parts.items())
    return b"event: %b\ndata: {%b}\n\n" % (b"update" if viewer is None else b"board", body)


def _object(rows: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (orjson.dumps(identity), row) for identity, row in rows.items())
