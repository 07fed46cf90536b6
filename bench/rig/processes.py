"""What processes cost, read from /proc; a program's children are counted with it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time spent so far and memory resident now, of a whole tree of processes."""

    cpu_seconds: float
    resident_mib: float


def usage(roots: Mapping[str, int]) -> dict[str, Usage]:
    """Return what each named tree uses; /proc is read once for all of them."""
    children: dict[int, list[int]] = defaultdict(list)
    spent: dict[int, float] = {}
    for pid in _all_processes():
        with suppress(*GONE):
            parent, spent[pid] = _parent_and_cpu(pid)
            children[parent].append(pid)
    return {name: _of_tree(pid, children, spent) for name, pid in roots.items()}


def _of_tree(root: int, children: Mapping[int, list[int]], spent: Mapping[int, float]) -> Usage:
    cpu = resident = 0.0
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        cpu += spent.get(pid, 0.0)
        with suppress(*GONE):
            resident += _resident_mib(pid)
    return Usage(cpu, resident)


def _all_processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _parent_and_cpu(pid: int) -> tuple[int, float]:
    # The name in parentheses may hold anything, so fields are counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[1]), sum(int(fields[place]) for place in (11, 12, 13, 14)) / TICKS


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
        if line.startswith(b"VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
