"""Looks for secrets where none may be: in every object but Secrets, and in every line that was logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from watchword._structlog import structlog
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    CORE_EVENTS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from watchword.testing.canary import Canary
from watchword.testing.simulation.findings import Findings
from watchword.testing.simulation.holdings import secrets_of
from watchword.testing.simulation.world import World

PLACES = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_ADDONS,
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    CORE_EVENTS,
    CONFIG_MAPS,
    LEASES,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
FORMS = (b"PRIVATE KEY", b"UFJJVkFURSBLRVk", b"eyJhbGciOi", b"ZXlKaGJHY2lPaU")
"""How keys and tokens begin, in the clear and in base64."""

KEPT_LINES = 20_000


class Log:
    """Every line of a run that warns, and the errors that nobody foresaw."""

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
def listening() -> Iterator[Log]:
    """Keep what is logged meanwhile, instead of printing it."""
    before, log = structlog.get_config(), Log()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.format_exc_info, log.take],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        cache_logger_on_first_use=False,
    )
    try:
        yield log
    finally:
        structlog.configure(**before)


def look_for_secrets(world: World, log: Log, findings: Findings) -> None:
    """Search everything that people can read for what nobody may."""
    canary = Canary()
    for member in world.members.values():
        for label, value in secrets_of(member).items():
            canary.look_for(label, value)
    places = [
        (f"{kind.plural}", record.body) for kind in PLACES for record in world.hub.store.records(kind.group_resource)
    ]
    places.append(("the log", "\n".join(log.lines).encode()))
    for place, text in places:
        if any(form in text for form in FORMS) or canary.found_in(text):
            findings.add(f"a secret can be read in {place}")
