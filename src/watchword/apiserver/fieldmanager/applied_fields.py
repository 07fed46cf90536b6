"""The fields that an applied configuration has an opinion about."""

from __future__ import annotations

from typing import Any

from watchword.api.meta import Object
from watchword.apiserver.fieldmanager.compare import UNTRACKED, items_by_element, tracked
from watchword.apiserver.fieldmanager.fieldset import FieldSet, make_node
from watchword.apiserver.fieldmanager.shape import field_schema, is_granular_list, is_granular_map
from watchword.apiserver.schema.model import Schema


def configured_fields(applied: Object, schema: Schema, reset: frozenset[str] = frozenset()) -> FieldSet:
    """Return the leaves of a configuration, without fields that have no manager."""
    fields = leaves(tracked(applied, UNTRACKED | reset), schema)
    if fields.get("f:metadata") == {}:
        del fields["f:metadata"]
    return fields


def leaves(value: dict[str, Any], schema: Schema | None) -> FieldSet:
    """Return the fields of an object: leaves, items of lists, entries of maps; not the structs around them."""
    fields: FieldSet = {}
    for key, item in value.items():
        named = schema is not None and key in schema.properties
        node = _node(item, field_schema(schema, key), member=not named)
        if node is not None:
            fields[f"f:{key}"] = node
    return fields


def _node(value: Any, schema: Schema | None, *, member: bool) -> FieldSet | None:
    if is_granular_map(value, schema):
        return make_node(leaves(value, schema), member=member or not value)
    if is_granular_list(value, schema):
        assert schema is not None
        grouped = items_by_element(value, schema)
        items = {element: _items_node(found, schema) for element, found in grouped.items()}
        return make_node(items, member=member)
    return {}


def _items_node(items: list[Any], schema: Schema) -> FieldSet:
    # Items that repeat a key are owned together, as one thing.
    node = _node(items[0], schema.items, member=True) if len(items) == 1 else None
    return {} if node is None else node
