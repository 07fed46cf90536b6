"""Who is told of a fleet that comes up: a person at a terminal, a person reading a log, or a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TextIO

import orjson

from watchword.api.time import rfc3339
from watchword.fleet.documents import inventory_document
from watchword.fleet.happenings import Happening
from watchword.fleet.local.pen import Pen
from watchword.fleet.local.story import Line, State
from watchword.fleet.local.view import ASCII_MARKS, UNICODE_MARKS, Scene, compose
from watchword.fleet.screen import Screen, Size, can_redraw, measure, speaks_unicode, text_of, wants_color

Look = Callable[[], Scene]


class Front(Protocol):
    """Shows what happens; `look` gives the whole picture of the moment."""

    def step(self, line: Line) -> None:
        """Take note of a step that went on."""
        ...

    def refresh(self, look: Look) -> None:
        """Show the picture, if it is one that changes."""
        ...

    def ready(self, look: Look, seconds: float) -> None:
        """Say that all is healthy."""
        ...

    def close(self, last_words: str) -> None:
        """Say how it ended."""
        ...

    @property
    def gone(self) -> bool:
        """Whether nobody is there any more to be told."""
        ...


@dataclass
class LiveFront:
    """A person at a terminal: one picture, drawn over and over."""

    screen: Screen
    pen: Pen

    def step(self, line: Line) -> None:
        """Nothing: the picture shows it."""

    def refresh(self, look: Look) -> None:
        """Draw the picture, unless the terminal has not taken the last one yet."""
        if not self.pen.busy:
            self.screen.draw(compose(look(), self.screen.size()))

    def ready(self, look: Look, seconds: float) -> None:  # noqa: ARG002 - the picture shows it
        """Draw the picture."""
        self.refresh(look)

    def close(self, last_words: str) -> None:
        """Leave the last picture, with a line below."""
        self.screen.close()
        self.pen.write(f"{last_words}\n" if last_words else "")
        self.pen.close()

    @property
    def gone(self) -> bool:
        """Whether the terminal was closed."""
        return self.pen.gone


@dataclass
class PlainFront:
    """A person reading a log: one line for each thing that happens."""

    pen: Pen
    unicode: bool
    _told: set[Happening] = field(default_factory=set)

    def step(self, line: Line) -> None:
        """Write the step once it has ended."""
        if line.state in (State.DONE, State.FAILED):
            mark = (UNICODE_MARKS if self.unicode else ASCII_MARKS)[line.state]
            self._write(f"{mark} {line.title}: {line.detail} ({line.seconds:.1f} s)")

    def refresh(self, look: Look) -> None:
        """Write what is news."""
        for row in news(look().happenings, self._told):
            self._write(f"{row.at[11:19]}  {row.about}: {row.what}")

    def ready(self, look: Look, seconds: float) -> None:  # noqa: ARG002 - the page says it
        """Write both tables and what to try."""
        scene = look()
        self._told.update(scene.happenings)
        for line in compose(replace(scene, happenings=(), unicode=self.unicode), Size(999, 999)):
            self._write(text_of(line).rstrip())

    def close(self, last_words: str) -> None:
        """Write how it ended."""
        if last_words:
            self._write(last_words)
        self.pen.close()

    @property
    def gone(self) -> bool:
        """Whether the reader has closed its end."""
        return self.pen.gone

    def _write(self, line: str) -> None:
        self.pen.write(f"{line}\n")


@dataclass
class JsonFront:
    """A program: one JSON object for each line, each with the kind of news under `event`."""

    pen: Pen
    _told: set[Happening] = field(default_factory=set)

    def step(self, line: Line) -> None:
        """Write every change of a step."""
        self._write("step", step=line.key, title=line.title, state=line.state, detail=line.detail, seconds=line.seconds)

    def refresh(self, look: Look) -> None:
        """Write what is news."""
        for row in news(look().happenings, self._told):
            self._write("happening", at=row.at, about=row.about, what=row.what, warning=row.is_warning)

    def ready(self, look: Look, seconds: float) -> None:
        """Write the whole inventory and what to try."""
        scene = look()
        inventory = inventory_document(scene.inventory, scene.now) if scene.inventory is not None else {}
        self._write("ready", at=rfc3339(scene.now), seconds=seconds, commands=list(scene.commands), **inventory)

    def close(self, last_words: str) -> None:
        """Write how it ended."""
        self._write("stopped", detail=last_words)
        self.pen.close()

    @property
    def gone(self) -> bool:
        """Whether the reader has closed its end."""
        return self.pen.gone

    def _write(self, event: str, **fields: Any) -> None:
        self.pen.write(orjson.dumps({"event": event, **fields}).decode() + "\n")


def news(rows: Sequence[Happening], told: set[Happening]) -> list[Happening]:
    """Return what was not told, and note that it is now."""
    fresh = [row for row in rows if row not in told]
    told.update(fresh)
    return fresh


def choose_front(stream: TextIO, *, json: bool) -> Front:
    """Return the front that suits a stream."""
    pen = Pen(stream)
    if json:
        return JsonFront(pen)
    if can_redraw(stream, os.environ):
        return LiveFront(Screen(pen, wants_color(stream, os.environ), lambda: measure(stream)), pen)
    return PlainFront(pen, speaks_unicode(stream))
