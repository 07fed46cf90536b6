"""Printer columns of custom kinds: a path into the object and a type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from watchword.api.json import show
from watchword.api.jsonpath import JsonPathError, find
from watchword.api.meta import Object
from watchword.apiserver.crd.definition import objects, text
from watchword.apiserver.duration import age
from watchword.apiserver.model import Column

_AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def columns_of(version: Object) -> tuple[Column, ...]:
    """Return the name and the columns of a version; without any, the age."""
    said = objects(version, "additionalPrinterColumns") or [_AGE]
    return (_NAME, *map(_column, said))


def _name(obj: Object, _now: datetime) -> Any:
    return obj["metadata"].get("name", "")


_NAME = Column("Name", _name, format="name", description="unique within its namespace")


def _column(column: Object) -> Column:
    path, kind = text(column, "jsonPath"), text(column, "type")
    priority = column.get("priority")
    return Column(
        name=text(column, "name"),
        cell=_cell(path, kind),
        type=kind,
        format=text(column, "format"),
        description=text(column, "description") or f"Custom resource definition column (in JSONPath format): {path}",
        priority=priority if isinstance(priority, int) else 0,
    )


def _cell(path: str, kind: str) -> Callable[[Object, datetime], Any]:
    def cell(obj: Object, now: datetime) -> Any:
        try:
            found = find(obj, path)
        except JsonPathError:
            return None
        return _shown(found[0], kind, now) if found else None

    return cell


def _shown(value: Any, kind: str, now: datetime) -> Any:
    """Return a value as its column shows it; None when it is of another type."""
    if kind == "string":
        return value if isinstance(value, str) else None if value is None else show(value)
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else float(value)


def _age(value: str, now: datetime) -> str:
    told = age(value, now)
    return "<invalid>" if told == "<unknown>" else told
