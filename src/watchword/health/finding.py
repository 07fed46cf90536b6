"""A finding: what is wrong, why, and the next command; every view of health renders these."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from watchword.runtime.prometheus import CollectorRegistry


class Severity(IntEnum):
    """In order of what needs attention first."""

    FAILURE = 0
    WARNING = 1  # a person should look, or something could not be read
    NOTICE = 2  # worth knowing; no view counts it
    OK = 3

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def needs_attention(self) -> bool:
        return self <= Severity.WARNING


class Finding(Struct, frozen=True):
    """One thing that was found; `reason` is a CamelCase word for metrics and scripts."""

    severity: Severity
    reason: str
    sentence: str
    command: str = ""  # fixes it, or shows the cause
    about: str = ""  # the cluster, add-on or credential that has a row of its own; empty for all others
    cluster: str = ""

    @property
    def line(self) -> str:
        return f"{self.about}: {self.sentence}" if self.about else self.sentence


class CheckResult(Struct, frozen=True):
    """What was found about one subject; one finding at least."""

    check: str
    findings: Sequence[Finding]


def passed(sentence: str) -> list[Finding]:
    return [Finding(Severity.OK, "Ok", sentence)]


def notice(reason: str, sentence: str, command: str = "") -> Finding:
    return Finding(Severity.NOTICE, reason, sentence, command)


def warn(reason: str, sentence: str, command: str = "") -> Finding:
    return Finding(Severity.WARNING, reason, sentence, command)


def fail(reason: str, sentence: str, command: str = "") -> Finding:
    return Finding(Severity.FAILURE, reason, sentence, command)


def urgent(results: Iterable[CheckResult]) -> list[tuple[str, Finding]]:
    """Return what needs attention with the name of its check, failures first."""
    found = [(result.check, each) for result in results for each in result.findings if each.severity.needs_attention]
    return sorted(found, key=lambda row: row[1].severity)


class FindingMetrics:
    """Counts findings in the registry of a process; a reason that was found once stays, with 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        documentation = "Findings that need attention, as `watchword status --check` prints them"
        self.gauge = registry.gauge("watchword_findings", documentation, "severity", "reason")
        self._counts: Counter[tuple[str, str]] = Counter()

    def exchange(self, old: Iterable[Finding], new: Iterable[Finding]) -> None:
        """Count the new findings about something instead of the old ones."""
        gone, found = (Counter((each.severity.label, each.reason) for each in side) for side in (old, new))
        for labels in gone.keys() | found.keys():
            self._counts[labels] += found[labels] - gone[labels]
            self.gauge.labels(*labels).set(self._counts[labels])


def finding_document(check: str, finding: Finding) -> dict[str, str]:
    return {
        "check": check,
        "severity": finding.severity.label,
        "reason": finding.reason,
        "message": finding.line,
        "command": finding.command,
        "cluster": finding.cluster,
    }
