"""Fills in the defaults of a schema."""

from __future__ import annotations

from typing import Any

from watchword.api.json import copy_json
from watchword.apiserver.schema.model import Schema


def apply_defaults(value: Any, schema: Schema) -> None:
    """Set defaults in place, after dropping nulls that the schema neither allows nor can replace.

    A default never creates the parent of the field that it belongs to.
    """
    _drop_nulls(value, schema)
    _fill(value, schema)


def _drop_nulls(value: Any, schema: Schema | None) -> None:
    if schema is None:
        return
    if type(value) is dict:
        properties, additional = schema.properties, schema.additional
        for key, item in list(value.items()) if None in value.values() else value.items():
            if item is None:
                below = properties.get(key, additional)
                if below is not None and not below.nullable and not below.has_default:
                    del value[key]
            elif type(item) is dict or type(item) is list:
                _drop_nulls(item, properties.get(key, additional))
    elif type(value) is list:
        for item in value:
            if type(item) is dict or type(item) is list:
                _drop_nulls(item, schema.items)


def _fill(value: Any, schema: Schema | None) -> None:
    if schema is None or "defaults" not in schema.contains:
        return
    if type(value) is dict:
        _fill_object(value, schema)
    elif type(value) is list and schema.items is not None:
        items = schema.items
        for index, item in enumerate(value):
            if item is None and items.has_default and not items.nullable:
                value[index] = copy_json(items.default)
            _fill(value[index], items)


def _fill_object(value: dict[str, Any], schema: Schema) -> None:
    for key, below in schema.properties.items():
        if below.has_default and (key not in value or (value[key] is None and not below.nullable)):
            value[key] = copy_json(below.default)
    additional = schema.additional
    for key, item in value.items():
        known = schema.properties.get(key)
        if known is not None:
            _fill(item, known)
        elif additional is not None:
            if item is None and additional.has_default and not additional.nullable:
                value[key] = copy_json(additional.default)
            _fill(value[key], additional)
