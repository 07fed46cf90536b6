"""Runs the steps one after another, updates the tracker, and reports at the end what is not healthy."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from watchword.admin.errors import NotReady
from watchword.api.validation import format_duration
from watchword.health.inventory_rows import Inventory
from watchword.local.fleet import LocalFleet
from watchword.local.steps import UpStep

MIN_FREE_BYTES = 1024 * 1024  # with less than that left, writes begin to fail


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
        return cls([StepStatus(key, title) for key, title in steps], now)

    def begin(self, key: str) -> None:
        self._started_at[key] = self.now()
        self._set(key, StepState.RUNNING, "")

    def note(self, key: str, detail: str) -> None:
        self._set(key, StepState.RUNNING, detail)

    def end(self, key: str, detail: str) -> None:
        self._set(key, StepState.DONE, detail)

    def fail(self, key: str, reason: str) -> None:
        self._set(key, StepState.FAILED, reason)

    def step(self, key: str) -> StepStatus:
        return next(step for step in self.steps if step.key == key)

    def _set(self, key: str, state: StepState, detail: str) -> None:
        step = self.step(key)
        if (step.state, step.detail) == (state, detail):
            return
        step.state, step.detail = state, detail
        step.seconds = self.now() - self._started_at[key] if key in self._started_at else 0.0
        for listener in self.listeners:
            listener(step)


def track_steps(steps: Sequence[UpStep]) -> StepTracker:
    return StepTracker.of([(step.key, step.title) for step in steps], asyncio.get_running_loop().time)


async def run_steps(
    fleet: LocalFleet, tracker: StepTracker, steps: Sequence[UpStep], patience: timedelta | None
) -> None:
    """Run every step; `NotReady` with reasons when the time is up before that, else what a step raises."""
    current = ""
    try:
        async with asyncio.timeout(None if patience is None else patience.total_seconds()):
            for step in steps:
                current = step.key
                tracker.begin(step.key)
                tracker.end(step.key, await step.run(fleet, lambda text, key=step.key: tracker.note(key, text)))  # type: ignore[misc]
    except TimeoutError as cause:
        reasons = unhealthy_reasons(fleet, tracker, current)
        tracker.fail(current, reasons[0])
        waited = format_duration(patience or timedelta(0))
        log = "" if fleet.in_memory else f"; the log is {fleet.folder.log}"  # else it goes with the rest
        raise NotReady(f"not healthy within {waited}: {'; '.join(reasons)}{log}") from cause
    except Exception as failure:
        tracker.fail(current, str(failure) or type(failure).__name__)
        raise


def unhealthy_reasons(fleet: LocalFleet, tracker: StepTracker, current: str) -> list[str]:
    """Return why a fleet is not healthy yet: what is waited for, what fails, and which members."""
    step = tracker.step(current)
    waited = f"{step.title.lower()}: {step.detail or 'under way'}"
    failing = [f"{name} fails: {why}" for name, why in sorted(fleet.supervisor.last_errors.items())]
    return [waited, *full_disk_reasons(fleet.folder.path), *failing, *inventory_problems(fleet.inventory())]


def full_disk_reasons(folder: Path) -> list[str]:
    """Say that the disk of a folder is full; nothing while it is not, or cannot be looked at."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return []
    return [f"the disk of {folder} is full: free some space"] if free < MIN_FREE_BYTES else []


def inventory_problems(inventory: Inventory | None) -> list[str]:
    if inventory is None:
        return []
    clusters = [f"{row.name}: {row.note}" for row in inventory.clusters if row.health.needs_attention]
    addons = [
        f"add-on {row.name} on {row.cluster}: {row.note}" for row in inventory.addons if row.health.needs_attention
    ]
    return clusters + addons
