"""What a simulated fleet did that it must never do."""

from __future__ import annotations

from dataclasses import dataclass, field

from watchword.testing.simulation.history import History


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise, with what led to it."""

    at: float
    what: str
    trace: tuple[str, ...] = field(repr=False)


@dataclass
class Findings:
    """Collects broken promises; each is told once."""

    history: History
    found: dict[str, Finding] = field(default_factory=dict)

    def add(self, what: str, *about: str) -> None:
        """Note a broken promise and the last things that concern it."""
        if what not in self.found:
            entry = self.history.note("finding", what)
            self.found[what] = Finding(entry.at, what, tuple(self.history.trace(*about)))

    @property
    def all(self) -> list[Finding]:
        """Every broken promise, in order."""
        return list(self.found.values())
