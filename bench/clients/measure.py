"""What a client is asked to do, and how it is measured while it does it."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

NAMESPACE = "bench"
OBJECTS = 200
SIZE = 2_048
CONCURRENCY = 50
MANAGER = "bench"


@dataclass
class Cost:
    """What one task took."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    megabytes: float = 0.0
    operations: int = field(default=0, kw_only=True)


class Subject(Protocol):
    """One client library; connecting and importing are not measured."""

    def requests(self, kubeconfig: Path, verb: str, names: list[str]) -> Cost:
        """Send one request per name, `CONCURRENCY` at a time, and use the client's normal result."""
        ...

    def events(self, kubeconfig: Path, count: int) -> Cost:
        """Watch Secrets and decode that many events."""
        ...

    def cache(self, kubeconfig: Path) -> Cost:
        """Read every Secret and keep it as the client's users would."""
        ...


@contextmanager
def stopwatch(operations: int = 0) -> Iterator[Cost]:
    """Measure wall and processor time of the block."""
    cost = Cost(operations=operations)
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.seconds, cost.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu


def a_change() -> str:
    """Return a value that was never there before: a write that changes nothing costs a server next to nothing."""
    return f"v{time.time_ns()}"


@contextmanager
def scales() -> Iterator[Cost]:
    """Measure by how much the process grows during the block, in MB (10^6 bytes)."""
    gc.collect()
    _give_back()
    cost, before = Cost(), _resident()
    yield cost
    gc.collect()
    _give_back()
    cost.megabytes = (_resident() - before) / 1e6


def _give_back() -> None:
    """Return freed memory to the system, where the C library can: what counts is what is held."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
