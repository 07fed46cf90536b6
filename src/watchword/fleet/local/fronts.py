"""Who is told of a fleet that comes up: a person at a terminal, a person reading a log, or a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

import orjson

from watchword.api.meta import Object, uid_of
from watchword.api.time import rfc3339
from watchword.fleet.documents import inventory_document
from watchword.fleet.local.story import Line, State
from watchword.fleet.local.view import ASCII_MARKS, UNICODE_MARKS, Scene, compose, write_event
from watchword.fleet.observing import event_time
from watchword.fleet.screen import Screen, can_redraw, measure, speaks_unicode, text_of, wants_color

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


@dataclass
class LiveFront:
    """A person at a terminal: one picture, drawn over and over."""

    screen: Screen

    def step(self, line: Line) -> None:
        """Nothing: the picture shows it."""

    def refresh(self, look: Look) -> None:
        """Draw the picture."""
        self.screen.draw(compose(look(), self.screen.size()))

    def ready(self, look: Look, seconds: float) -> None:  # noqa: ARG002 - the picture shows it
        """Draw the picture."""
        self.refresh(look)

    def close(self, last_words: str) -> None:
        """Leave the last picture, with a line below."""
        self.screen.close()
        self.screen.stream.write(f"{last_words}\n" if last_words else "")


@dataclass
class PlainFront:
    """A person reading a log: one line for each thing that happens."""

    stream: TextIO
    unicode: bool
    _told: set[str] = field(default_factory=set)

    def step(self, line: Line) -> None:
        """Write the step once it has ended."""
        if line.state in (State.DONE, State.FAILED):
            mark = (UNICODE_MARKS if self.unicode else ASCII_MARKS)[line.state]
            self._write(f"{mark} {line.title}: {line.detail} ({line.seconds:.1f} s)")

    def refresh(self, look: Look) -> None:
        """Write the events that are news."""
        for event in new_events(look().events, self._told):
            self._write(f"{event_time(event)[11:19]}  {write_event(event)}")

    def ready(self, look: Look, seconds: float) -> None:
        """Write both tables and what to try."""
        from watchword.fleet.screen import Size  # noqa: PLC0415 - a page without end, made here only

        scene = look()
        self._told.update(uid_of(event) for event in scene.events)
        for line in compose(
            Scene(scene.title, scene.steps, scene.inventory, (), scene.commands, scene.now), Size(999, 999)
        ):
            self._write(text_of(line).rstrip())
        self._write(f"ready in {seconds:.1f} s")

    def close(self, last_words: str) -> None:
        """Write how it ended."""
        if last_words:
            self._write(last_words)

    def _write(self, line: str) -> None:
        self.stream.write(f"{line}\n")
        self.stream.flush()


@dataclass
class JsonFront:
    """A program: one JSON object for each line, each with the kind of news under `event`."""

    stream: TextIO
    _told: set[str] = field(default_factory=set)

    def step(self, line: Line) -> None:
        """Write every change of a step."""
        self._write("step", step=line.key, title=line.title, state=line.state, detail=line.detail, seconds=line.seconds)

    def refresh(self, look: Look) -> None:
        """Write the events that are news."""
        for event in new_events(look().events, self._told):
            about = event.get("regarding") or {}
            named = {"kind": about.get("kind"), "namespace": about.get("namespace"), "name": about.get("name")}
            told = {name: event.get(name) for name in ("type", "reason", "note")}
            self._write("event", at=event_time(event), regarding=named, **told)

    def ready(self, look: Look, seconds: float) -> None:
        """Write the whole inventory and what to try."""
        scene = look()
        inventory = inventory_document(scene.inventory, scene.now) if scene.inventory is not None else {}
        self._write("ready", at=rfc3339(scene.now), seconds=seconds, commands=list(scene.commands), **inventory)

    def close(self, last_words: str) -> None:
        """Write how it ended."""
        self._write("stopped", detail=last_words)

    def _write(self, event: str, **fields: Any) -> None:
        self.stream.write(orjson.dumps({"event": event, **fields}).decode() + "\n")
        self.stream.flush()


def new_events(events: Sequence[Object], told: set[str]) -> list[Object]:
    """Return the events that were not told, and note that they are now."""
    fresh = [event for event in events if uid_of(event) not in told]
    told.update(uid_of(event) for event in fresh)
    return fresh


def choose_front(stream: TextIO, *, json: bool) -> Front:
    """Return the front that suits a stream."""
    if json:
        return JsonFront(stream)
    if can_redraw(stream, os.environ):
        return LiveFront(Screen(stream, wants_color(stream, os.environ), lambda: measure(stream)))
    return PlainFront(stream, speaks_unicode(stream))
