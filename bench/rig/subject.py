"""Who does the work: command lines in a small file, so that any program can be measured on any workload."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """One process of a subject, with placeholders in braces."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # written into {dir} before the start
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # extra arguments by name
    per_agent: bool = False  # started once for each agent instead of once

    def command(self, variant: str, values: Mapping[str, object]) -> list[str]:
        """Return the command line of a variant with its placeholders filled in."""
        return [part.format(**values) for part in (*self.argv, *self.variants.get(variant, ()))]


@dataclass(frozen=True)
class Subject:
    """A named set of programs for each workload it can do."""

    name: str
    workloads: Mapping[str, tuple[Program, ...]]

    def programs(self, workload: str, *, per_agent: bool) -> list[Program]:
        """Return the programs that are started once, or those of each agent."""
        if workload not in self.workloads:
            raise SystemExit(f"{self.name} has no programs for {workload}: it has {', '.join(self.workloads)}")
        return [program for program in self.workloads[workload] if program.per_agent is per_agent]


def read_subject(path: Path) -> Subject:
    """Read a subject file."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    workloads = {
        workload: tuple(_program(name, fields) for name, fields in programs.items())
        for workload, programs in document["workloads"].items()
    }
    return Subject(document["name"], workloads)


def _program(name: str, fields: Mapping[str, object]) -> Program:
    known = {"argv", "environment", "files", "variants", "per_agent"}
    if unknown := fields.keys() - known:
        raise SystemExit(
            f"{name} has unknown fields {', '.join(sorted(unknown))}: known are {', '.join(sorted(known))}"
        )
    return Program(name=name, **fields)  # type: ignore[arg-type]  # the names are checked, the file is ours
