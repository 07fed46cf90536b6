"""What has been done so far and what is under way, told to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class State(StrEnum):
    """How far a step has come."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Line:
    """One step as it is shown."""

    key: str
    title: str
    state: State = State.WAITING
    detail: str = ""
    seconds: float = 0.0


Listener: TypeAlias = Callable[[Line], None]


@dataclass
class Story:
    """The steps in order; listeners are told of every change."""

    lines: list[Line]
    now: Callable[[], float]
    listeners: list[Listener] = field(default_factory=list)
    _began: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Iterable[tuple[str, str]], now: Callable[[], float]) -> Story:
        """Return a story whose steps, as key and title, all lie ahead."""
        return cls([Line(key, title) for key, title in steps], now)

    def begin(self, key: str) -> None:
        """Say that a step is under way."""
        self._began[key] = self.now()
        self._set(key, State.RUNNING, "")

    def note(self, key: str, detail: str) -> None:
        """Say more about a step that is under way."""
        self._set(key, State.RUNNING, detail)

    def end(self, key: str, detail: str) -> None:
        """Say that a step is done."""
        self._set(key, State.DONE, detail)

    def fail(self, key: str, reason: str) -> None:
        """Say that a step failed."""
        self._set(key, State.FAILED, reason)

    def line(self, key: str) -> Line:
        """Return one step."""
        return next(line for line in self.lines if line.key == key)

    def _set(self, key: str, state: State, detail: str) -> None:
        line = self.line(key)
        if (line.state, line.detail) == (state, detail):
            return
        line.state, line.detail = state, detail
        line.seconds = self.now() - self._began[key] if key in self._began else 0.0
        for listener in self.listeners:
            listener(line)
