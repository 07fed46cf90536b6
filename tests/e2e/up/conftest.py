"""`watchword up` as a process of its own, observed by its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

PATIENCE = 90.0
WATCHWORD = (sys.executable, "-m", "watchword")


class UpProcess:
    """A fleet that starts; its events are read one by one."""

    def __init__(self, *flags: str, temporary: Path) -> None:
        self.errors = temporary / "stderr"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*WATCHWORD, "up", "--json", *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(temporary)},
                start_new_session=True,
            )

    def news(self) -> Iterator[dict[str, Any]]:
        """Return what happens, until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield orjson.loads(line)

    def until(self, event: str, **fields: str) -> dict[str, Any]:
        """Read on until something happens."""
        for each in self.news():
            if each["event"] == event and all(each.get(name) == value for name, value in fields.items()):
                return each
        raise AssertionError(f"ended before {event} {fields}: {self.errors.read_text()}")

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        """Wait for its end and return the exit code."""
        assert self.process.stdout is not None
        self.process.stdout.read()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Any]:
    """Start fleets, which end with the test."""
    started: list[UpProcess] = []

    def start(*flags: str) -> UpProcess:
        started.append(UpProcess(*flags, temporary=tmp_path))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.kill()
