"""Programs of Open Cluster Management as processes of their own, from the folder that PEERS_BIN names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from watchword.testing.process import ChildProcess

VARIABLE = "PEERS_BIN"


def find_program(name: str) -> Path:
    """Return the path of a program; skip the test where it is not at hand."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder or "").absolute() / name
    if not folder or not os.access(path, os.X_OK):
        pytest.skip(f"no program {name} of Open Cluster Management: put it into the folder that {VARIABLE} names")
    return path


@dataclass
class OcmPrograms:
    """The programs that a test runs; each writes its log into the folder."""

    folder: Path
    running: list[ChildProcess] = field(default_factory=list)

    def start(self, program: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> ChildProcess:
        """Run a program until the test ends or stops it."""
        log = self.folder / f"{len(self.running)}-{program}.log"
        process = ChildProcess([find_program(program), *arguments], log, environment=environment)
        self.running.append(process)
        return process


@contextmanager
def run_ocm_programs(folder: Path) -> Iterator[OcmPrograms]:
    """End every program with the context."""
    programs = OcmPrograms(folder)
    try:
        yield programs
    finally:
        for process in programs.running:
            process.stop()
