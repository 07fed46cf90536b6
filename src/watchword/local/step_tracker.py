"""The state of the startup steps, with listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field


class StepState(StrEnum):
    """How far a step has come."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class StepStatus(Struct):
    """One step as it is shown."""

    key: str
    title: str
    state: StepState = StepState.WAITING
    detail: str = ""
    seconds: float = 0.0


Listener: TypeAlias = Callable[[StepStatus], None]


class StepTracker(Struct):
    """The steps in order; listeners are called on every change."""

    steps: list[StepStatus]
    now: Callable[[], float]
    listeners: list[Listener] = field(default_factory=list)
    _started_at: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Iterable[tuple[str, str]], now: Callable[[], float]) -> StepTracker:
        """Return a tracker whose steps, as key and title, all lie ahead."""
        return cls([StepStatus(key, title) for key, title in steps], now)

    def begin(self, key: str) -> None:
        """Report that a step is under way."""
        self._started_at[key] = self.now()
        self._set(key, StepState.RUNNING, "")

    def note(self, key: str, detail: str) -> None:
        """Report progress of a step that is running."""
        self._set(key, StepState.RUNNING, detail)

    def end(self, key: str, detail: str) -> None:
        """Report that a step is done."""
        self._set(key, StepState.DONE, detail)

    def fail(self, key: str, reason: str) -> None:
        """Report that a step failed."""
        self._set(key, StepState.FAILED, reason)

    def step(self, key: str) -> StepStatus:
        """Return one step."""
        return next(step for step in self.steps if step.key == key)

    def _set(self, key: str, state: StepState, detail: str) -> None:
        step = self.step(key)
        if (step.state, step.detail) == (state, detail):
            return
        step.state, step.detail = state, detail
        step.seconds = self.now() - self._started_at[key] if key in self._started_at else 0.0
        for listener in self.listeners:
            listener(step)
