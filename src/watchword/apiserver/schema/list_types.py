"""Keeps lists of type set and map free of duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watchword.api.json import encode_identity
from watchword.apiserver.field_errors import duplicate, invalid
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.model import Schema


def check_list_types(value: Any, schema: Schema | None, path: str) -> list[FieldError]:
    """Return the repeated items of every set and map list at this value and below."""
    return list(_walk(value, schema, path))


def _walk(value: Any, schema: Schema | None, path: str) -> Iterator[FieldError]:
    if schema is None or "unique lists" not in schema.contains:
        return
    if type(value) is dict:
        for key, item in value.items():
            if key in schema.properties:
                yield from _walk(item, schema.properties[key], f"{path}.{key}" if path else key)
            elif schema.additional is not None:
                yield from _walk(item, schema.additional, f"{path}[{key}]")
    elif type(value) is list:
        yield from _duplicates(value, schema, path)
        for index, item in enumerate(value):
            yield from _walk(item, schema.items, f"{path}[{index}]")


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.list_type == "atomic":
        return
    identities = value
    if schema.list_type == "map":
        for index, item in enumerate(value):
            if item is not None and type(item) is not dict:
                yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
                return
        identities = [{key: item[key] for key in schema.list_map_keys if key in item} if item else {} for item in value]
    seen: dict[bytes, int] = {}
    for index, identity in enumerate(identities):
        encoded = encode_identity(identity)
        seen[encoded] = seen.get(encoded, 0) + 1
        if seen[encoded] == 2:
            yield duplicate(f"{path}[{index}]", identity)
