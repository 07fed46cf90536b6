"""Removes from an object the fields that a set names."""

from __future__ import annotations

from typing import Any, Final

from watchword.apiserver.fieldmanager.fieldset import FieldSet, is_member, make_node
from watchword.apiserver.fieldmanager.shape import (
    field_schema,
    is_granular_list,
    is_granular_map,
    item_element,
)
from watchword.apiserver.schema.model import Schema

_GONE: Final = object()


def remove_fields(value: Any, fields: FieldSet, schema: Schema | None) -> Any:
    """Return the value without the members of the set; what is left is shared with the input."""
    if not fields:
        return value
    if is_granular_map(value, schema):
        kept = {key: _kept(item, fields.get(f"f:{key}"), field_schema(schema, key)) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not _GONE}
    if is_granular_list(value, schema):
        assert schema is not None
        items = [_kept(item, fields.get(item_element(item, schema)), schema.items) for item in value]
        return [item for item in items if item is not _GONE]
    return value


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Return the set with every named field on the way as a member: owning `spec.a` is owning `spec`."""
    named: FieldSet = {}
    for element, node in fields.items():
        if element == ".":
            continue
        kind, name = element[0], element[2:]
        if kind == "f":
            below = field_schema(schema, name)
            is_named = schema is not None and name in schema.properties
        else:
            below, is_named = (schema.items if schema is not None and kind == "k" else None), False
        children = with_named_fields(node, below)
        made = make_node(children, member=is_named or is_member(node))
        if made is not None:
            named[element] = made
    return named


def _kept(item: Any, node: FieldSet | None, schema: Schema | None) -> Any:
    if node is None:
        return item
    return _GONE if is_member(node) else remove_fields(item, node, schema)
