"""The columns of a custom kind, as its definition writes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339
from watchword.apiserver.duration import human_duration
from watchword.apiserver.kinds.columns.cells import AGE, NAME, Cell
from watchword.apiserver.kinds.columns.jsonpath import BadPath, JsonPath, parse_path
from watchword.apiserver.model import Column


def printer_columns(definitions: Sequence[Object] | None) -> tuple[Column, ...]:
    """Return the name, then the additionalPrinterColumns of a version; its age when there are none."""
    if not definitions:
        return (NAME, Column("Age", AGE.cell, type="date", description=AGE.description))
    return (NAME, *(_column(definition) for definition in definitions))


def _column(definition: Object) -> Column:
    kind = str(definition.get("type") or "string")
    return Column(
        str(definition.get("name") or ""),
        _cell(str(definition.get("jsonPath") or ""), kind),
        type=kind,
        format=str(definition.get("format") or ""),
        description=str(definition.get("description") or ""),
        priority=int(definition.get("priority") or 0),
    )


def _cell(text: str, kind: str) -> Cell:
    try:
        path = parse_path(text)
    except BadPath:
        return lambda _obj, _now: None
    return lambda obj, now: _first(path, obj, kind, now)


def _first(path: JsonPath, obj: Object, kind: str, now: datetime) -> Any:
    found = path.find(obj)
    if not found or found[0] is None:
        return None
    return _shown(found[0], kind, now)


def _shown(value: Any, kind: str, now: datetime) -> Any:
    match kind:
        case "string":
            return value if isinstance(value, str) else orjson.dumps(value).decode()
        case "date" if isinstance(value, str):
            instant = parse_rfc3339(value)
            return "<invalid>" if instant is None else human_duration(now - instant)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer" if not isinstance(value, bool) and isinstance(value, int | float):
            return int(value)
        case "number" if not isinstance(value, bool) and isinstance(value, int | float):
            return value
        case _:
            return None
