"""Watches over processes and audit logs from a start to any number of marks."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from bench.rig.audit import AuditLog, Requests
from bench.rig.processes import usage

PERIOD = 0.25


@dataclass(frozen=True)
class Mark:
    """Everything since the start, up to one moment."""

    seconds: float
    cpu_seconds: dict[str, float]
    peak_mib: dict[str, float]
    first_mib: dict[str, float]  # at the start, or when the process was first seen
    requests: dict[str, Requests]  # by cluster


class Meter:
    """Measures while its context is open; processes may be added on the way."""

    def __init__(self, pids: Mapping[str, int], audits: Mapping[str, AuditLog], users: tuple[str, ...]) -> None:
        self._pids = dict(pids)
        self._audits = audits
        self._users = users
        self._peaks: dict[str, float] = defaultdict(float)
        self._first_mib: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        for audit in self._audits.values():
            audit.read()
        self._first = {name: len(audit.entries) for name, audit in self._audits.items()}
        self._cpu_before = {name: used.cpu_seconds for name, used in usage(self._pids).items()}
        self._started = time.monotonic()
        self._sampling = asyncio.create_task(self._sample())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sampling.cancel()

    def add(self, name: str, pid: int) -> None:
        """Measure one more process from its very start."""
        self._pids[name] = pid
        self._cpu_before[name] = 0.0

    def mark(self) -> Mark:
        """Return the totals at this moment."""
        now = self._look()
        requests = {}
        for name, audit in self._audits.items():
            audit.read()
            requests[name] = audit.count(self._users, self._first[name])
        cpu = {name: spent - self._cpu_before[name] for name, spent in now.items()}
        return Mark(time.monotonic() - self._started, cpu, dict(self._peaks), dict(self._first_mib), requests)

    async def _sample(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(PERIOD)

    def _look(self) -> dict[str, float]:
        used = usage(self._pids)
        for name, one in used.items():
            self._first_mib.setdefault(name, one.resident_mib)
            self._peaks[name] = max(self._peaks[name], one.resident_mib)
        return {name: one.cpu_seconds for name, one in used.items()}
