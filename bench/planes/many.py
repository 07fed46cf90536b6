"""Many control planes in one process, as a fleet on one machine has them."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.planes.servers import MIB, resident
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.runtime.event_loop import run

INSTANCES = 20


async def start_many(folder: Path, wanted: int) -> tuple[float, float]:
    """Start so many instances, each with its data and its socket; return seconds and MiB for all of them."""
    begin = time.perf_counter()
    instances = [
        Instance(InstanceSettings(folder / str(number), port=0), lambda: datetime.now(UTC)) for number in range(wanted)
    ]
    for instance in instances:
        await instance.start()
    spent = time.perf_counter() - begin
    memory = resident(os.getpid()) / MIB
    await asyncio.gather(*(instance.stop() for instance in instances))
    return spent, memory


async def main() -> None:
    """Print seconds and MiB; meant to run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        spent, memory = await start_many(Path(folder), INSTANCES)
    print(f"{spent:.3f} {memory:.1f}")


if __name__ == "__main__":
    run(main())
    sys.exit(0)
