"""Status conditions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from watchword.api.meta import Object, mapping_at, rows_at
from watchword.api.time import rfc3339

Status = Literal["True", "False", "Unknown"]
_VERSIONS = frozenset({"resourceVersion", "generation", "managedFields"})


FALSE_BY_DEFAULT = frozenset({"ClusterSetEmpty", "Deleting", "Progressing", "RevocationPending", "Superseded"})
"""Condition types whose status False is the normal one."""


class Condition(Struct, frozen=True):
    """One condition; `reason` is for programs, `message` for people."""

    type: str
    status: Status
    reason: str
    message: str = ""

    @classmethod
    def true(cls, type_: str, reason: str, message: str = "") -> Condition:
        return cls(type_, "True", reason, message)

    @classmethod
    def false(cls, type_: str, reason: str, message: str = "") -> Condition:
        return cls(type_, "False", reason, message)

    @classmethod
    def unknown(cls, type_: str, reason: str, message: str = "") -> Condition:
        return cls(type_, "Unknown", reason, message)

    @property
    def is_refusal(self) -> bool:
        """Whether the condition reports a problem; it is repeated until its cause is removed."""
        if self.type.endswith("Degraded"):
            return self.status == "True"
        return self.status == "False" and self.type not in FALSE_BY_DEFAULT


def conditions_of(obj: Mapping[str, Any]) -> list[Object]:
    return rows_at(obj, "status", "conditions")


def find_condition(obj: Mapping[str, Any], type_: str) -> Condition | None:
    for row in conditions_of(obj):
        if row.get("type") == type_:
            return Condition(type_, row.get("status", "Unknown"), row.get("reason", ""), row.get("message", ""))
    return None


def is_true(obj: Mapping[str, Any], type_: str) -> bool:
    found = find_condition(obj, type_)
    return found is not None and found.status == "True"


def without_messages(obj: Object) -> Object:
    """Return an object without its version and without the wording and instants of its conditions, to be compared."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _VERSIONS}
    rows = [(row.get("type"), row.get("status"), row.get("reason")) for row in conditions_of(obj)]
    return {**obj, "metadata": metadata, "status": {**mapping_at(obj, "status"), "conditions": rows}}


def merge_condition(
    rows: list[Object], condition: Condition, *, now: datetime, generation: int | None = None
) -> list[Object] | None:
    """Return the list with the condition set, or None when it is set already.

    The transition time changes only when the status does.
    """
    index = next((number for number, row in enumerate(rows) if row.get("type") == condition.type), len(rows))
    old = rows[index] if index < len(rows) else {}
    since = old.get("lastTransitionTime") if old.get("status") == condition.status else None
    row: Object = {
        **old,
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since or rfc3339(now),
    }
    if generation is not None:
        row["observedGeneration"] = generation
    return None if row == old else [*rows[:index], row, *rows[index + 1 :]]


def without_condition(rows: list[Object], type_: str) -> list[Object] | None:
    kept = [row for row in rows if row.get("type") != type_]
    return kept if len(kept) != len(rows) else None
