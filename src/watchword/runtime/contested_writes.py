"""Slows a controller down that writes a field again and again because another program changes it back."""

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import orjson
from msgspec import Struct, field

from watchword.api.expiring_map import ExpiringMap
from watchword.api.http import Request
from watchword.kube.client import PatchType
from watchword.runtime.errors import CreationContested, FieldContested

WINDOW_SECONDS = 60.0
TOLERATED_REWRITES = 5
TOLERATED_BURST = 20  # writes of one condition within a second
TOLERATED_CHANGES = 80  # of the content of one condition within the window
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 600.0
REMEMBERED_FIELDS = 8192
FORGOTTEN_AFTER_PAUSES = 4  # a caller with delays of its own comes back some time after a pause
REMEMBERED_SECONDS = WINDOW_SECONDS + FORGOTTEN_AFTER_PAUSES * LONGEST_PAUSE_SECONDS
EXISTENCE, APPLIED = "the object itself", "the applied fields"
_PRECONDITIONS = frozenset({"metadata.uid", "metadata.resourceVersion"})


class FieldWrite(Struct, frozen=True):
    """One field that a request writes. `since` tells apart two writes of a condition that held in between."""

    name: str
    digest: str  # of the value: values may be secret
    since: str = ""


class FieldHistory(Struct):
    """What this process last wrote into a field of an object, and how often it did so again."""

    last: FieldWrite
    rewrites: deque[float] = field(default_factory=deque)
    pause: float = 0.0
    paused_until: float = 0.0
    burst: tuple[float, int] = (0.0, 0)  # since when, and how often, the very same was written within a second
    changes: tuple[float, int] = (0.0, 0)  # since when, and how often, its content changed within the window

    def is_rewrite(self, write: FieldWrite, now: float) -> bool:
        """Whether another program must have changed the field since it was last written.

        A condition that is written with others, unchanged, has the same instant as before. So has one that changes to
        and fro within a second, which is the resolution of that instant: what is written that often is contested. So is
        one whose content changes with nearly every write, because other conditions are written between the two.
        """
        if write.digest != self.last.digest:
            return bool(write.since) and self._changes_at(now)[1] >= TOLERATED_CHANGES
        return not write.since or write.since != self.last.since or self._burst_at(now)[1] >= TOLERATED_BURST

    def record(self, write: FieldWrite, now: float) -> bool:
        """Record a write; return whether the next one has to wait."""
        again = self.is_rewrite(write, now)
        since, count = self._burst_at(now)
        first_change, changes = self._changes_at(now)
        self.changes = (first_change, changes + (write.digest != self.last.digest))
        self.last, self.burst = write, (since, count + 1)
        while self.rewrites and self.rewrites[0] <= now - WINDOW_SECONDS - FORGOTTEN_AFTER_PAUSES * self.pause:
            self.rewrites.popleft()
        if not self.rewrites:
            self.pause = 0.0
        if not again:
            return False
        self.rewrites.append(now)
        if len(self.rewrites) <= TOLERATED_REWRITES and not self.pause:
            return False
        self.pause = min(max(2 * self.pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        self.paused_until = now + self.pause
        return True

    def _burst_at(self, now: float) -> tuple[float, int]:
        return self.burst if now < self.burst[0] + 1 else (now, 0)

    def _changes_at(self, now: float) -> tuple[float, int]:
        return self.changes if now < self.changes[0] + WINDOW_SECONDS else (now, 0)


WrittenFields: TypeAlias = dict[tuple[str, str], FieldWrite]
"""What a request writes, by the path of the object and the name of the field."""


class ContestedWrites:
    """Refuses, for a time that doubles, to write a field that another program keeps changing back.

    Patches, applies and creations are looked at: controllers send them where something differs, so the same value
    twice means that it was changed in between. Two creations of one object mean that it was deleted in between,
    whatever its content.
    """

    def __init__(self) -> None:
        self._histories: ExpiringMap[tuple[str, str], FieldHistory] = ExpiringMap(REMEMBERED_FIELDS)

    def enter(self, request: Request, now: float, *, is_there: bool = False) -> WrittenFields:
        """Return what a request writes; `FieldContested` when it would go on with a contest.

        An apply that is refused as a creation may be sent if the object is there, which the caller finds out.
        """
        path = f"{request.path}/{_name(request)}" if request.method == "POST" else request.path
        written = {(path, write.name): write for write in fields_written(request)}
        for key, write in written.items():
            history = self._histories.get(key, now=now)
            if is_there and write.name == EXISTENCE:
                continue
            if history is not None and now < history.paused_until and history.is_rewrite(write, now):
                error = CreationContested if write.name == EXISTENCE else FieldContested
                raise error(path, write.name, history.paused_until - now)
        return written

    def record(self, written: WrittenFields, now: float, *, created: bool) -> list[str]:
        """Record a request's writes; return the fields that must not be written for now."""
        paused = []
        for key, write in written.items():
            if created is not (write.name == EXISTENCE):  # a creation changes nothing back
                continue
            history = self._histories.get(key, now=now)
            if history is None:
                history = FieldHistory(write)
            elif history.record(write, now):
                paused.append(write.name)
            self._histories.put(key, history, now=now, seconds=REMEMBERED_SECONDS)
        return paused


def fields_written(request: Request) -> Iterator[FieldWrite]:
    """Return the fields that a request writes, conditions one by one; nothing for requests that are not looked at."""
    if request.parameter("dryRun"):
        return
    if request.method == "POST" and _name(request):
        yield FieldWrite(EXISTENCE, "")
    elif request.method == "PATCH" and request.header("Content-Type") == PatchType.APPLY:
        yield FieldWrite(EXISTENCE, "")
        yield FieldWrite(APPLIED, _digest(_decoded(request)))
    elif request.method == "PATCH" and request.header("Content-Type") == PatchType.MERGE:
        yield from _leaves("", _decoded(request))
    elif request.method == "PATCH" and request.header("Content-Type") == PatchType.JSON:
        for row in orjson.loads(request.body):
            if row["op"] == "replace":
                name, _, number = row["path"][1:].replace("/", ".").partition("conditions.")
                yield from _leaves(f"{name}conditions", [row["value"]]) if number else _leaves(name, row["value"])


def _leaves(name: str, value: Any) -> Iterator[FieldWrite]:
    if name == "status.conditions" and isinstance(value, list):
        for row in value:
            if isinstance(row, Mapping):
                said = [row.get(part) for part in ("status", "reason", "message")]
                yield FieldWrite(f"{name}[{row.get('type')}]", _digest(said), str(row.get("lastTransitionTime") or "-"))
    elif isinstance(value, Mapping) and value:
        for part, inner in value.items():
            yield from _leaves(f"{name}.{part}".lstrip("."), inner)
    elif name not in _PRECONDITIONS:
        yield FieldWrite(name, _digest(value))


def _name(request: Request) -> str:
    metadata = _decoded(request).get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _decoded(request: Request) -> Mapping[str, Any]:
    try:
        body = orjson.loads(request.body or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, Mapping) else {}


def _digest(value: Any) -> str:
    return sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
