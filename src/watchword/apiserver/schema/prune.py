"""Removes fields that a schema does not define, and returns their paths."""

from __future__ import annotations

from typing import Any

from watchword.apiserver.schema.model import Schema


def prune(value: Any, schema: Schema, *, in_order: bool = False) -> list[str]:
    """Remove unknown fields in place; return their paths, sorted or in order of appearance."""
    unknown = _prune(value, schema)
    return unknown if in_order else sorted(unknown)


def _prune(value: Any, schema: Schema | None) -> list[str]:
    # Paths grow on the way up, so that an object without unknown fields costs no string at all.
    if type(value) is list:
        return _prune_list(value, schema)
    if type(value) is not dict:
        return []
    if schema is None:
        unknown = list(value)
        value.clear()
        return unknown
    return _prune_object(value, schema)


def _prune_object(value: dict[str, Any], schema: Schema) -> list[str]:
    unknown: list[str] = []
    doomed: list[str] = []
    properties, additional, keep = schema.properties, schema.additional, _keeps_unknown(schema)
    for key, item in value.items():
        below = properties.get(key, additional)
        if below is None:
            if not keep:
                doomed.append(key)
                unknown.append(key)
        elif (type(item) is dict or type(item) is list) and (found := _prune(item, below)):
            unknown.extend(_join(key, path) for path in found)
    for key in doomed:
        del value[key]
    return unknown


def _prune_list(value: list[Any], schema: Schema | None) -> list[str]:
    items = schema.items if schema is not None else None
    unknown: list[str] = []
    if items is None and schema is not None and _keeps_unknown(schema):
        return unknown
    for index, item in enumerate(value):
        if (type(item) is dict or type(item) is list) and (found := _prune(item, items)):
            unknown.extend(_join(f"[{index}]", path) for path in found)
    return unknown


def _keeps_unknown(schema: Schema) -> bool:
    return schema.preserve_unknown or schema.type == "any"


def _join(head: str, tail: str) -> str:
    return f"{head}{tail}" if tail.startswith("[") else f"{head}.{tail}"
