"""Runs the steps one after another, and reports at the end what is not healthy."""

import asyncio
import shutil
from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct

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


async def run_steps(
    fleet: LocalFleet,
    steps: Iterable[tuple[UpStep, StepStatus]],
    changed: Callable[[StepStatus], None],
    patience: timedelta | None,
) -> None:
    """Run every step; `NotReady` with reasons when the time is up before that, else what a step raises."""
    loop = asyncio.get_running_loop()
    began, status = loop.time(), StepStatus("", "")

    def update(state: StepState, detail: str) -> None:
        if (status.state, status.detail) != (state, detail):
            status.state, status.detail, status.seconds = state, detail, loop.time() - began
            changed(status)

    try:
        async with asyncio.timeout(None if patience is None else patience.total_seconds()):
            for step, status in steps:  # noqa: B007 - `update` reads it
                began = loop.time()
                update(StepState.RUNNING, "")
                update(StepState.DONE, await step.run(fleet, partial(update, StepState.RUNNING)))
    except TimeoutError as cause:
        reasons = unhealthy_reasons(fleet, status)
        update(StepState.FAILED, reasons[0])
        waited = format_duration(patience or timedelta(0))
        log = "" if fleet.options.in_memory else f"; the log is {fleet.folder.log}"  # else it goes with the rest
        raise NotReady(f"not healthy within {waited}: {'; '.join(reasons)}{log}") from cause
    except Exception as failure:
        update(StepState.FAILED, str(failure) or type(failure).__name__)
        raise


def unhealthy_reasons(fleet: LocalFleet, step: StepStatus) -> list[str]:
    waited = f"{step.title.lower()}: {step.detail or 'under way'}"
    failing = [f"{name} fails: {why}" for name, why in sorted(fleet.supervisor.last_errors.items())]
    return [waited, *full_disk_reasons(fleet.folder.path), *failing, *inventory_problems(fleet.inventory())]


def full_disk_reasons(folder: Path) -> list[str]:
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
