"""The dashboard in a process of its own that answers what it has cost: started by `bench.dashboard`.

It prints its address. For each line on its standard input it prints the processor time that it has used, and the
longest time for which its event loop was blocked since the line before; after the line `probe` it looks for that time,
which itself costs processor time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

from watchword.dashboard.process import DashboardOptions, observe_readable, serve_dashboard
from watchword.kube.connect import connect
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run, running

PROBED_EVERY = 0.002  # seconds


class LoopProbe:
    """Wakes up often, and notes how much processor time other tasks took in between."""

    def __init__(self) -> None:
        self.blocked = 0.0
        self.wanted = asyncio.Event()

    async def run(self) -> None:
        """Probe while that is wanted, until cancelled."""
        while True:
            await self.wanted.wait()
            began = time.thread_time()
            await asyncio.sleep(PROBED_EVERY)
            self.blocked = max(self.blocked, time.thread_time() - began)

    def take(self, *, probe: bool) -> float:
        """Return the longest time since the last call; probe from now on, or do not."""
        taken, self.blocked = self.blocked, 0.0
        self.wanted.set() if probe else self.wanted.clear()
        return taken


async def serve(kubeconfig: Path) -> None:
    """Serve the dashboard until the standard input ends."""
    client, probe = connect(kubeconfig), LoopProbe()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with (
        running(probe.run(), "probe"),
        observe_readable(client) as observer,
        serve_dashboard(client, observer, DashboardOptions(), clock=SystemClock()) as served,
    ):
        print(json.dumps({"address": served.address()}), flush=True)
        while line := await reader.readline():
            blocked = probe.take(probe=line == b"probe\n")
            print(json.dumps({"cpu": time.process_time(), "blocked": blocked}), flush=True)
    await client.close()


if __name__ == "__main__":
    gc.set_threshold(20_000, 10, 5)  # as `watchword dashboard` does
    run(serve(Path(sys.argv[1])))
