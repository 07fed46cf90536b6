"""What a simulated fleet did that it must never do."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.simulation.history import History

from watchword.api.sensitive import HiddenFields

MOST_TRACES = 12
"""A program that never rests breaks a thousand promises on a quiet day; a reader begins with the first."""

MOST_LINES = 20
"""Of the traceback of an exception."""


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
    is_sought: Callable[[str], bool] = lambda _: False
    sought: asyncio.Event = field(default_factory=asyncio.Event)  # once one is found that is sought

    def add_error(self, error: Exception) -> None:
        """Note what ended the life, and where it was raised."""
        lines = "".join(traceback.format_exception(error)).splitlines()
        self.add(f"the life ended with {error!r}", trace=lines[-MOST_LINES:])

    def add(self, what: str, *about: str, trace: Sequence[str] = ()) -> None:
        """Note a broken promise and what led to it: the last things that concern it."""
        if what not in self.found:
            entry = self.history.note("violation", what)
            if not trace and len(self.found) < MOST_TRACES:
                trace = self.history.trace(*about)
            self.found[what] = Violation(entry.at, what, tuple(trace))
            if self.is_sought(what):
                self.sought.set()

    @property
    def all(self) -> list[Violation]:
        """Every broken promise, in order."""
        return list(self.found.values())
