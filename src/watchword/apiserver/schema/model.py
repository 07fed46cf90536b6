"""A structural schema, whether it comes from a CRD or from a built-in kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from watchword.api.json import encode_identity

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
    rules: tuple[Mapping[str, Any], ...] = ()  # x-kubernetes-validations
    contains: frozenset[str] = field(init=False, repr=False, compare=False)
    """Of "defaults", "rules", "unique lists" and "embedded", those found here or below: passes skip subtrees by it."""

    def __post_init__(self) -> None:
        below = [*self.properties.values(), *filter(None, (self.additional, self.items))]
        found = set[str]().union(*(schema.contains for schema in below))
        if self.has_default:
            found.add("defaults")
        if self.rules:
            found.add("rules")
        if self.list_type != "atomic":
            found.add("unique lists")
        if self.embedded_resource:
            found.add("embedded")
        object.__setattr__(self, "contains", frozenset(found))


class _Absent:
    """There is no earlier value; None would be a JSON null."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def old_field(old: Any, schema: Schema, key: str) -> Any:
    """Return the earlier value of a field of an object."""
    if type(old) is not dict or schema.map_type == "atomic":
        return ABSENT
    return old.get(key, ABSENT)


def old_items(old: Any, schema: Schema) -> Callable[[Any], Any] | None:
    """Return how to find the earlier value of a list's item; None when items have no identity."""
    if type(old) is not list or schema.list_type != "map":
        return None
    keys = schema.list_map_keys
    known = {item_key(item, schema): item for item in reversed(old) if type(item) is dict}
    return lambda item: known.get(item_key(item, schema), ABSENT) if type(item) is dict and keys else ABSENT


def item_key(item: dict[str, Any], schema: Schema) -> bytes:
    """Return what identifies an item of a list of type map."""
    defaults = schema.items.properties if schema.items is not None else {}
    return encode_identity(
        [item.get(key, defaults[key].default if key in defaults else None) for key in schema.list_map_keys]
    )
