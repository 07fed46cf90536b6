"""The words of the doctor: what is checked, what is found, what to do next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from watchword.health.hub_reader import read_hub_facts
from watchword.health.inventory_rows import HubFacts
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, Unreachable
from watchword.registration.catalog import CATALOG, Catalog
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


class CheckFinding(Struct, frozen=True):
    """One thing that was found: why it is so, and the command that helps; none for what is well."""

    level: Level
    reason: str
    command: str = ""


class CheckResult(Struct, frozen=True):
    """What one check found."""

    check: str
    findings: Sequence[CheckFinding]


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is examined; without `probe_signer`, only by looking."""

    client: Client
    clock: Clock
    probe_signer: Callable[[], Awaitable[str]] | None = None  # says why certificates cannot be had
    catalog: Catalog = CATALOG
    _read: list[HubFacts] = field(default_factory=list, init=False, repr=False, compare=False)

    async def facts(self) -> HubFacts:
        """Return the facts about a hub's fleet; read once and shared."""
        if not self._read:
            self._read.append(await read_hub_facts(self.client))
        return self._read[0]


CheckFunction: TypeAlias = Callable[[CheckContext], Awaitable[Iterable[CheckFinding]]]


class Check(Struct, frozen=True):
    """One question; `required` ones end the examination when they fail."""

    name: str
    run: CheckFunction
    required: bool = False


def passed(reason: str) -> list[CheckFinding]:
    return [CheckFinding(Level.OK, reason)]


def warn(reason: str, command: str = "") -> CheckFinding:
    return CheckFinding(Level.WARNING, reason, command)


def fail(reason: str, command: str = "") -> CheckFinding:
    return CheckFinding(Level.FAILURE, reason, command)


async def run_checks(context: CheckContext, checks: Sequence[Check]) -> list[CheckResult]:
    """Run every check; one that cannot be run is a finding, too."""
    results: list[CheckResult] = []
    for check in checks:
        try:
            findings = list(await check.run(context))
        except Unreachable as trouble:
            findings = [
                fail(f"the server does not answer: {trouble}", "is it running, and does the kubeconfig name it?")
            ]
        except KubeError as trouble:
            findings = [fail(f"this could not be checked: {trouble}")]
        except Exception as error:  # noqa: BLE001 - one check that cannot be run must not hide the others
            findings = [fail(f"this could not be checked: unexpected {type(error).__name__}", "watchword -vv doctor")]
        results.append(CheckResult(check.name, findings))
        if check.required and any(finding.level is Level.FAILURE for finding in findings):
            break
    return results


def has_no_failure(results: Iterable[CheckResult]) -> bool:
    """Whether nothing fails; warnings are allowed."""
    return all(finding.level is not Level.FAILURE for result in results for finding in result.findings)
