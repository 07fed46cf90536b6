"""The output of a fleet that starts: for a terminal, a log, or a program."""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.admin.terminal import (
    Screen,
    TerminalSize,
    can_redraw,
    plain_text,
    supports_color,
    supports_unicode,
    terminal_size,
)
from watchword.api.text import escape_text
from watchword.api.time import rfc3339
from watchword.health.inventory import inventory_document
from watchword.health.recent_events import FleetEvent
from watchword.local.startup import StepState, StepStatus
from watchword.local.view import ASCII_MARKS, UNICODE_MARKS, FleetView, render_foot, render_head, render_view

CLOSE_TIMEOUT = 1.0  # seconds that the end of a program waits for a terminal that does not take what is written
MAX_QUEUED = 10_000  # texts; beyond that, output to a terminal that does not read is lost
ViewReader = Callable[[], FleetView]


class BackgroundWriter:
    """A text stream whose writes return immediately; a thread of its own waits for the terminal.

    A terminal may be stopped (Ctrl-S) or slow: the fleet must not stop because of it.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._descriptor = stream.fileno()
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._waiting: deque[bytes] = deque(maxlen=MAX_QUEUED)
        self._ready = threading.Condition()
        self._closed = False
        self.reader_closed = False  # whether the reader has closed its end
        self.busy = False  # whether something written has not arrived yet
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        with self._ready:
            self._waiting.append(text.encode(self._encoding, "replace"))
            self.busy = True
            self._ready.notify()
        return len(text)

    def flush(self) -> None:
        """Return at once: the thread writes without being asked."""

    def close(self) -> None:
        """Wait until everything has arrived, but not for ever."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join(CLOSE_TIMEOUT)

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._waiting:
                    self.busy = False
                    if self._closed:
                        return
                    self._ready.wait()
                data = self._waiting.popleft()
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                self.reader_closed = True
                return


class UpOutput(Struct):
    """Shows what happens, through a writer in the background; `read_view` gives the whole picture of the moment."""

    writer: BackgroundWriter

    @property
    def reader_closed(self) -> bool:
        return self.writer.reader_closed

    def step(self, line: StepStatus) -> None:
        """Show a change of a step; by default the next picture contains it."""

    def refresh(self, read_view: ViewReader) -> None: ...

    def ready(self, read_view: ViewReader, seconds: float) -> None: ...

    def close(self, final_message: str) -> None: ...


class TerminalOutput(UpOutput):
    """Output for a terminal: one picture, redrawn."""

    screen: Screen

    def refresh(self, read_view: ViewReader) -> None:
        """Draw the picture, unless the terminal has not taken the last one yet."""
        if not self.writer.busy:
            self.screen.draw(render_view(read_view(), self.screen.size()))

    def ready(self, read_view: ViewReader, seconds: float) -> None:  # noqa: ARG002 - the picture shows it
        self.refresh(read_view)

    def close(self, final_message: str) -> None:
        self.screen.close()
        self.writer.write(f"{final_message}\n" if final_message else "")
        self.writer.close()


class PlainOutput(UpOutput):
    """Output for a log: one line per step, and what to try; `verbose` adds events and tables."""

    unicode: bool
    verbose: bool = False
    _reported: set[FleetEvent] = field(default_factory=set)

    def step(self, line: StepStatus) -> None:
        if line.state in (StepState.DONE, StepState.FAILED):
            mark = (UNICODE_MARKS if self.unicode else ASCII_MARKS)[line.state]
            self._write(f"{mark} {line.title}: {line.detail} ({line.seconds:.1f} s)")

    def refresh(self, read_view: ViewReader) -> None:
        if not self.verbose:
            return
        for row in select_unreported(read_view().recent_events, self._reported):
            self._write(f"{row.at[11:19]}  {row.about}: {row.what}")

    def ready(self, read_view: ViewReader, seconds: float) -> None:  # noqa: ARG002 - the page says it
        view = read_view()
        self._reported.update(view.recent_events)
        shown = replace(view, recent_events=(), unicode=self.unicode)
        size = TerminalSize(999, 999)
        for line in (
            render_view(shown, size) if self.verbose else [*render_head(shown, size), *render_foot(shown, size)]
        ):
            self._write(plain_text(line).rstrip())

    def close(self, final_message: str) -> None:
        for line in final_message.splitlines():
            self._write(line)
        self.writer.close()

    def _write(self, line: str) -> None:
        self.writer.write(f"{escape_text(line)}\n")


class JsonOutput(UpOutput):
    """Output for a program: one JSON object per line, each with its type under `event`."""

    _reported: set[FleetEvent] = field(default_factory=set)

    def step(self, line: StepStatus) -> None:
        self._write("step", step=line.key, title=line.title, state=line.state, detail=line.detail, seconds=line.seconds)

    def refresh(self, read_view: ViewReader) -> None:
        for row in select_unreported(read_view().recent_events, self._reported):
            self._write("happening", at=row.at, about=row.about, what=row.what, warning=row.is_warning)

    def ready(self, read_view: ViewReader, seconds: float) -> None:
        view = read_view()
        inventory = inventory_document(view.inventory, view.now) if view.inventory is not None else {}
        ready = {"at": rfc3339(view.now), "seconds": seconds, "commands": list(view.commands)}
        self._write("ready", **ready, dashboard=view.dashboard, **inventory)

    def close(self, final_message: str) -> None:
        self._write("stopped", detail=final_message)
        self.writer.close()

    def _write(self, event: str, **fields: Any) -> None:
        self.writer.write(escape_text(orjson.dumps({"event": event, **fields}).decode()) + "\n")


def select_unreported(rows: Sequence[FleetEvent], reported: set[FleetEvent]) -> list[FleetEvent]:
    fresh = [row for row in rows if row not in reported]
    reported.update(fresh)
    return fresh


def choose_output(stream: TextIO, *, json: bool, verbose: bool = False) -> UpOutput:
    writer = BackgroundWriter(stream)
    if json:
        return JsonOutput(writer)
    if can_redraw(stream, os.environ):
        return TerminalOutput(writer, Screen(writer, supports_color(stream, os.environ), lambda: terminal_size(stream)))
    return PlainOutput(writer, supports_unicode(stream), verbose)
