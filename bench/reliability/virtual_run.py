"""Runs a fleet on a new embedded control plane in virtual time, with its log kept."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from bench.reliability.fleet import CredentialFleet, FleetSize, open_credential_fleet
from watchword.runtime.virtual_time import run_virtual
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane
from watchword.testing.simulation.secret_leaks import capture_log

T = TypeVar("T")


def run_fleet_virtually(
    measure: Callable[[CredentialFleet], Awaitable[T]],
    size: FleetSize,
    *,
    seed: int = 1,
    skew: timedelta = timedelta(0),
) -> T:
    """Start a fleet, measure it, end it; the same seed gives the same run."""

    async def main() -> T:
        with tempfile.TemporaryDirectory(prefix="watchword-bar-") as folder:
            async with open_embedded(Path(folder), listening=False) as backend:
                plane = Plane(backend, private=True)
                async with open_credential_fleet(plane, size, skew=skew) as fleet:
                    result = await measure(fleet)
                await plane.close()
                return result

    with capture_log():
        return run_virtual(main(), seed=seed)


async def pass_time(duration: timedelta) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(duration.total_seconds())
