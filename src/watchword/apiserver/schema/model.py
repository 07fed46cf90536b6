"""A structural schema, whether it comes from a CRD or from a built-in kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
