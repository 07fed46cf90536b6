"""Looks for secrets where none may be: in every object that is no Secret, and in every line that was logged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from tests.helpers.leak_search import Canary
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.pillar import Pillar
from tests.simulation.violations import Violations

from watchword.api.resources import SECRETS
from watchword.apiserver.store.memory import MemoryStore

SECRET_PREFIXES = (b"PRIVATE KEY", b"UFJJVkFURSBLRVk", b"eyJhbGciOi", b"ZXlKaGJHY2lPaU")
"""How keys and tokens begin, in the clear and in base64."""

KEPT_LINES = 20_000


class CapturedLog:
    """Every line of a run that warns, and unexpected errors."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []

    def take(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Keep one line, and print nothing: a structlog processor."""
        line = repr(dict(event))
        if len(self.lines) < KEPT_LINES:
            self.lines.append(line)
        if method in ("error", "exception", "critical"):
            self.errors.append(line)
        raise structlog.DropEvent


@contextmanager
def capture_log(level: int = logging.WARNING) -> Iterator[CapturedLog]:
    """Keep what is logged meanwhile from this level on, instead of printing it."""
    before, log = structlog.get_config(), CapturedLog()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.format_exc_info, log.take],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
    try:
        yield log
    finally:
        structlog.configure(**before)


@dataclass
class LeakSearcher:
    """Searches everything that people can read for secrets: each version of each object, and the log."""

    fleet: SimulatedFleet
    pillars: Sequence[Pillar]
    log: CapturedLog
    violations: Violations
    _searched: dict[str, int] = field(default_factory=dict)  # plane → the revision up to which it was searched

    def look(self) -> None:
        """Search what was written since the last look."""
        for name, store in self._stores():
            since = self._searched.get(name, 0)
            self._searched[name] = store.revision
            for bucket in store.buckets() if store.revision > since else ():
                if bucket != SECRETS.group_resource:
                    self._search(
                        f"the {bucket} of {name}", (r.body for r in store.records(bucket) if r.revision > since)
                    )

    def final(self) -> None:
        """Search everything once more, also for the very secrets that the clusters hold in the end."""
        canary = Canary()
        for pillar in self.pillars:
            for label, value in pillar.secret_values():
                canary.look_for(label, value)
        self._searched.clear()
        self.look()
        self._search("the log", (line.encode() for line in self.log.lines))
        spoken = dict.fromkeys(line.encode() for line in self.log.lines)  # what is the same everywhere is searched once
        for _, store in self._stores():
            for bucket in store.buckets():
                if bucket != SECRETS.group_resource:
                    spoken |= dict.fromkeys(record.body for record in store.records(bucket))
        for label in canary.found_in(b"\n".join(spoken)):
            self.violations.add(f"the {label} can be read outside a Secret")

    def _search(self, place: str, texts: Iterable[bytes]) -> None:
        if any(form in text for text in texts for form in SECRET_PREFIXES):
            self.violations.add(f"a secret can be read in {place}")

    def _stores(self) -> Iterator[tuple[str, MemoryStore]]:
        yield "the hub", self.fleet.hub.store
        for member in self.fleet.members.values():
            yield member.name, member.plane.store
