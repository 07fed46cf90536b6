"""Formats cells of a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from watchword.api.meta import Object
from watchword.apiserver.duration import age
from watchword.apiserver.model import Column

Cell = Callable[[Object, datetime], Any]


def at(obj: Object, path: str) -> Any:
    """Return the value at a dotted path, None when any part is absent."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text(path: str, absent: str = "") -> Cell:
    """A cell that shows a text, or another one when it is absent."""
    return lambda obj, _: at(obj, path) or absent


def number(path: str) -> Cell:
    """A cell that shows a number, zero when it is absent."""
    return lambda obj, _: at(obj, path) or 0


def size(path: str) -> Cell:
    """A cell that counts the entries of a list or map."""
    return lambda obj, _: len(at(obj, path) or ())


def since(path: str, absent: str = "<unknown>") -> Cell:
    """A cell that shows how long ago an instant was."""
    return lambda obj, now: age(at(obj, path), now) if at(obj, path) else absent


def wide(name: str, cell: Cell, description: str = "") -> Column:
    """A column shown by `-o wide` alone."""
    return Column(name, cell, description=description, priority=1)


NAME = Column("Name", text("metadata.name"), format="name", description="unique within its namespace")
AGE = Column("Age", since("metadata.creationTimestamp"), description="time since it was created")
CREATED_AT = Column("Created At", text("metadata.creationTimestamp"), type="date", description="when it was created")

PLAIN = (NAME, AGE)
DATED = (NAME, CREATED_AT)
