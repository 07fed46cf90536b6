"""What a simulated fleet did that it must never do."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.history import History

from watchword.api.sensitive import HiddenFields


class Violation(HiddenFields, frozen=True):
    """One broken promise, with what led to it."""

    hidden = ("trace",)

    at: float
    what: str
    trace: tuple[str, ...]


@dataclass
class Violations:
    """Collects broken promises; each is told once."""

    history: History
    found: dict[str, Violation] = field(default_factory=dict)

    def add(self, what: str, *about: str) -> None:
        """Note a broken promise and the last things that concern it."""
        if what not in self.found:
            entry = self.history.note("violation", what)
            self.found[what] = Violation(entry.at, what, tuple(self.history.trace(*about)))

    @property
    def all(self) -> list[Violation]:
        """Every broken promise, in order."""
        return list(self.found.values())
