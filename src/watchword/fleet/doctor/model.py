"""The words of the doctor: what is checked, what is found, what to do next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from watchword.fleet.inventory import HubFacts
from watchword.fleet.reading import read_facts
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, Unreachable
from watchword.runtime.clock import Clock


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"

    @property
    def rank(self) -> int:
        """In order of what needs attention first."""
        return (Level.FAILURE, Level.WARNING, Level.OK).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: why it is so, and the command that helps; none for what is well."""

    level: Level
    reason: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found."""

    check: str
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined; without `may_write`, only by looking."""

    client: Client
    clock: Clock
    may_write: bool = True
    _read: list[HubFacts] = field(default_factory=list, init=False, repr=False, compare=False)

    async def facts(self) -> HubFacts:
        """Return what a hub knows of its fleet; read once, however many ask."""
        if not self._read:
            self._read.append(await read_facts(self.client))
        return self._read[0]


Examine: TypeAlias = Callable[[Patient], Awaitable[Iterable[Finding]]]


@dataclass(frozen=True, slots=True)
class Check:
    """One question; `vital` ones end the examination when they fail."""

    name: str
    examine: Examine
    vital: bool = False


def well(reason: str) -> list[Finding]:
    """Say that all is well."""
    return [Finding(Level.OK, reason)]


def warn(reason: str, command: str = "") -> Finding:
    """Say that something deserves attention."""
    return Finding(Level.WARNING, reason, command)


def fail(reason: str, command: str = "") -> Finding:
    """Say that something does not work."""
    return Finding(Level.FAILURE, reason, command)


async def examine(patient: Patient, checks: Sequence[Check]) -> list[Result]:
    """Ask every question; one that cannot be asked is a finding, too."""
    results: list[Result] = []
    for check in checks:
        try:
            findings = list(await check.examine(patient))
        except Unreachable as trouble:
            findings = [
                fail(f"the server does not answer: {trouble}", "is it running, and does the kubeconfig name it?")
            ]
        except KubeError as trouble:
            findings = [fail(f"this could not be found out: {trouble}")]
        results.append(Result(check.name, findings))
        if check.vital and any(finding.level is Level.FAILURE for finding in findings):
            break
    return results


def is_well(results: Iterable[Result]) -> bool:
    """Whether nothing fails; warnings are allowed."""
    return all(finding.level is not Level.FAILURE for result in results for finding in result.findings)
