"""Runs a fleet on a new embedded control plane in virtual time, with its log kept."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from tests.simulation.secret_leaks import CapturedLog, capture_log

from bench.reliability.fleet import Crash, CredentialFleet, FleetSize, open_credential_fleet
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import run_virtual

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """What is special about a run; the same seed gives the same run."""

    seed: int = 1
    skew: timedelta = timedelta(0)  # of the clusters' clocks
    crash: Crash | None = None
    log_level: int = logging.WARNING


ORDINARY = VirtualRun()


def run_fleet_virtually(
    measure: Callable[[CredentialFleet], Awaitable[T]], size: FleetSize, run: VirtualRun = ORDINARY
) -> T:
    """Start a fleet, measure it, end it."""
    return run_and_capture(measure, size, run)[0]


def run_and_capture(
    measure: Callable[[CredentialFleet], Awaitable[T]], size: FleetSize, run: VirtualRun = ORDINARY
) -> tuple[T, CapturedLog]:
    """Start a fleet, measure it, end it; return what was logged as well."""

    async def main() -> T:
        with tempfile.TemporaryDirectory(prefix="watchword-bar-") as folder:
            async with open_embedded(Path(folder), listening=False) as backend:
                plane = Plane(backend, private=True)
                async with open_credential_fleet(plane, size, skew=run.skew, crash=run.crash) as fleet:
                    result = await measure(fleet)
                await plane.close()
                return result

    with capture_log(run.log_level) as log:
        return run_virtual(main(), seed=run.seed), log


async def pass_time(duration: timedelta) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(duration.total_seconds())
