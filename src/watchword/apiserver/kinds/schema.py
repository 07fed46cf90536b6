"""A structural schema, whether it comes from a CRD or from a built-in kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from watchword.api.json import copy_json


def apply_defaults(value: Any, schema: Schema) -> None:
    """Set defaults in place, after dropping nulls that the schema neither allows nor can replace.

    A default never creates the parent of the field that it belongs to.
    """
    _drop_nulls(value, schema)
    _fill(value, schema)


def _drop_nulls(value: Any, schema: Schema | None) -> None:
    if schema is None:
        return
    if type(value) is list:
        for item in value:
            if type(item) is dict or type(item) is list:
                _drop_nulls(item, schema.items)
    if type(value) is not dict:
        return
    properties, additional = schema.properties, schema.additional
    for key, item in list(value.items()) if None in value.values() else value.items():
        if item is None:
            below = properties.get(key, additional)
            if below is not None and not below.nullable and not below.has_default:
                del value[key]
        elif type(item) is dict or type(item) is list:
            _drop_nulls(item, properties.get(key, additional))


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


Type = Literal["object", "array", "string", "integer", "number", "boolean", "int-or-string", "any"]


@dataclass(frozen=True, slots=True)
class Schema:
    """One node. Empty `properties` with neither `additional` nor `preserve_unknown` is an empty object."""

    type: Type
    description: str = ""
    properties: Mapping[str, Schema] = field(default_factory=dict)
    additional: Schema | None = None  # a map: the schema of its values
    items: Schema | None = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = None
    has_default: bool = False
    preserve_unknown: bool = False
    embedded_resource: bool = False
    # merging: x-kubernetes-list-type, -list-map-keys, -map-type, and the strategic merge pair
    list_type: Literal["atomic", "set", "map"] = "atomic"
    list_map_keys: tuple[str, ...] = ()
    map_type: Literal["granular", "atomic"] = "granular"
    patch_strategy: Literal["", "merge", "replace", "retainKeys", "merge,retainKeys"] = ""
    patch_merge_key: str = ""
    # validation, as OpenAPI v3 names it (enum, pattern, minimum, maxLength, format, …) and CEL rules;
    # allOf, anyOf and oneOf hold a tuple of Schema, not holds a Schema
    constraints: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[dict[str, Any], ...] = ()  # x-kubernetes-validations
    contains: frozenset[str] = field(init=False, repr=False, compare=False)
    """Of "defaults", "rules", "unique lists" and "embedded", those found here or below: passes skip subtrees by it."""

    def __post_init__(self) -> None:
        below = [*self.properties.values(), *filter(None, (self.additional, self.items))]
        own = {
            "defaults": self.has_default,
            "rules": bool(self.rules),
            "unique lists": self.list_type != "atomic",
            "embedded": self.embedded_resource,
        }
        found = frozenset(name for name, is_here in own.items() if is_here)
        object.__setattr__(self, "contains", found.union(*(schema.contains for schema in below)))

    def field(self, key: str) -> Schema:
        """Return the schema of a field; what is not described may be anything."""
        return self.properties.get(key) or self.additional or ANYTHING

    @property
    def item(self) -> Schema:
        return self.items or ANYTHING


ANYTHING = Schema("any", preserve_unknown=True)
