"""Which requests a user made, read from the API server's own audit log."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One request; a watch is one, however long it lasts."""

    user: str
    action: str  # verb and resource
    code: int


@dataclass(frozen=True)
class Requests:
    """How many of what; failed ones are counted and listed, too."""

    total: int
    by_action: dict[str, int]
    failed: dict[str, int]


class AuditLog:
    """Reads what is new each time it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.last_seen: dict[str, float] = {}  # user → when its last request was read; renewing leases aside
        self._offset = 0
        self._rest = b""
        self._watches: set[str] = set()

    def read(self) -> None:
        """Take in what was written since the last time."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(None, lines):
            self._take(orjson.loads(line))

    def count(self, prefixes: tuple[str, ...], since: int = 0) -> Requests:
        """Return the requests of users whose name begins with one of the prefixes."""
        mine = [entry for entry in self.entries[since:] if entry.user.startswith(prefixes)]
        failed = Counter(f"{entry.code} {entry.action}" for entry in mine if entry.code >= 400)
        by_action = Counter(entry.action for entry in mine)
        return Requests(len(mine), dict(by_action.most_common()), dict(failed.most_common()))

    def last_request(self, prefixes: tuple[str, ...]) -> float | None:
        """Return when a request of these users was last seen."""
        return max((at for user, at in self.last_seen.items() if user.startswith(prefixes)), default=None)

    def _take(self, event: dict[str, Any]) -> None:
        if event["verb"] == "watch":  # has several stages; the first counts
            if event["auditID"] in self._watches:
                return
            self._watches.add(event["auditID"])
        elif event["stage"] != "ResponseComplete":
            return
        entry = Entry(event["user"].get("username", ""), _action(event), event.get("responseStatus", {}).get("code", 0))
        self.entries.append(entry)
        if not entry.action.endswith(" leases"):
            self.last_seen[entry.user] = time.monotonic()


def _action(event: dict[str, Any]) -> str:
    reference = event.get("objectRef") or {}
    resource = reference.get("resource") or event["requestURI"].partition("?")[0]
    subresource = reference.get("subresource")
    return f"{event['verb']} {resource}/{subresource}" if subresource else f"{event['verb']} {resource}"
