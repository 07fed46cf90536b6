"""Reads the openAPIV3Schema of a CRD into the schema that every pass walks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final, Literal, cast

from msgspec import Struct

from watchword.apiserver.schema.model import Schema, Type

_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def dns1035_label_errors(text: str) -> str:
    return _name_errors(text, _LABEL, _LABEL_RULE, 63)


def dns_subdomain_errors(text: str) -> str:
    return _name_errors(text, _SUBDOMAIN, _SUBDOMAIN_RULE, 253)


def _name_errors(text: str, pattern: str, rule: str, limit: int) -> str:
    found = [f"must be no more than {limit} characters"] if len(text) > limit else []
    if re.fullmatch(pattern, text, re.ASCII) is None:
        found.append(rule)
    return ",".join(found)


_CONSTRAINTS: Final[dict[str, tuple[type, ...]]] = {
    "enum": (list,),
    "exclusiveMaximum": (bool,),
    "exclusiveMinimum": (bool,),
    "format": (str,),
    "maxItems": (int,),
    "maxLength": (int,),
    "maxProperties": (int,),
    "maximum": (int, float),
    "minItems": (int,),
    "minLength": (int,),
    "minProperties": (int,),
    "minimum": (int, float),
    "multipleOf": (int, float),
    "pattern": (str,),
    "title": (str,),
}
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_TYPES = frozenset(("object", "array", "string", "integer", "number", "boolean"))
_ANYTHING = Schema("any", preserve_unknown=True)


def from_openapi(openapi: Any, *, metadata: Schema | None = None) -> Schema:
    """Return the schema that a JSON document describes; what is malformed is left out.

    With `metadata`, the schema of ObjectMeta, the document describes a whole resource.
    """
    reader = _Reader(metadata or _ANYTHING)
    schema = reader.read(openapi)
    return reader.as_resource(schema) if metadata is not None else schema


class _Reader(Struct, frozen=True):
    metadata: Schema

    def read(self, node: Any) -> Schema:
        if not isinstance(node, dict):
            return _ANYTHING
        keep = node.get("x-kubernetes-preserve-unknown-fields") is True
        default = node.get("default")
        required = node.get("required")
        schema = Schema(
            _type_of(node),
            description=_text(node, "description"),
            properties={str(key): self.read(below) for key, below in _mapping(node, "properties").items()},
            additional=self._additional(node),
            items=self.read(node["items"]) if isinstance(node.get("items"), dict) else None,
            required=tuple(key for key in required if isinstance(key, str)) if isinstance(required, list) else (),
            nullable=node.get("nullable") is True,
            default=default,
            has_default=default is not None,
            preserve_unknown=keep,
            embedded_resource=node.get("x-kubernetes-embedded-resource") is True,
            list_type=_list_type(node),
            list_map_keys=_texts(node, "x-kubernetes-list-map-keys"),
            map_type="atomic" if node.get("x-kubernetes-map-type") == "atomic" else "granular",
            constraints=self._constraints(node),
            rules=_rules(node),
        )
        return self.as_resource(schema) if schema.embedded_resource else schema

    def as_resource(self, schema: Schema) -> Schema:
        """Add what every resource has; the document may restrict its name, nothing else."""
        said = schema.properties.get("metadata")
        restricted = {} if said is None else {k: v for k, v in said.properties.items() if k in {"name", "generateName"}}
        metadata = replace(self.metadata, properties={**self.metadata.properties, **restricted})
        own = {"apiVersion": Schema("string"), "kind": Schema("string"), "metadata": metadata}
        return replace(schema, properties={**schema.properties, **own})

    def _additional(self, node: dict[str, Any]) -> Schema | None:
        said = node.get("additionalProperties")
        if isinstance(said, dict):
            return self.read(said)
        return _ANYTHING if said is True else None

    def _constraints(self, node: dict[str, Any]) -> dict[str, Any]:
        found = {key: node[key] for key, kinds in _CONSTRAINTS.items() if key in node and type(node[key]) in kinds}
        for key in _JUNCTORS:
            branches = node.get(key)
            if isinstance(branches, list) and branches:
                found[key] = tuple(self.read(branch) for branch in branches)
        if isinstance(node.get("not"), dict):
            found["not"] = self.read(node["not"])
        return found


def _type_of(node: dict[str, Any]) -> Type:
    if node.get("x-kubernetes-int-or-string") is True:
        return "int-or-string"
    said = node.get("type")
    return cast("Type", said) if isinstance(said, str) and said in _TYPES else "any"


def _list_type(node: dict[str, Any]) -> Literal["atomic", "set", "map"]:
    said = node.get("x-kubernetes-list-type")
    return "map" if said == "map" else "set" if said == "set" else "atomic"


def _rules(node: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    said = node.get("x-kubernetes-validations")
    return tuple(rule for rule in said if isinstance(rule, dict)) if isinstance(said, list) else ()


def _text(node: dict[str, Any], key: str) -> str:
    said = node.get(key)
    return said if isinstance(said, str) else ""


def _texts(node: dict[str, Any], key: str) -> tuple[str, ...]:
    said = node.get(key)
    return tuple(item for item in said if isinstance(item, str)) if isinstance(said, list) else ()


def _mapping(node: dict[str, Any], key: str) -> dict[str, Any]:
    said = node.get(key)
    return said if isinstance(said, dict) else {}


Node = dict[str, Any]

JUNCTORS = ("anyOf", "allOf", "oneOf")
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def as_node(value: Any) -> Node | None:
    return value if isinstance(value, dict) else None


def below(node: Node, key: str) -> Node | None:
    """Return the single schema under a key: items, not, additionalProperties."""
    return as_node(node.get(key))


def properties_of(node: Node) -> dict[str, Node]:
    said = as_node(node.get("properties")) or {}
    return {str(key): value for key, value in said.items() if isinstance(value, dict)}


def branches(node: Node, junctor: str) -> list[Node]:
    said = node.get(junctor)
    return [branch for branch in said if isinstance(branch, dict)] if isinstance(said, list) else []


def type_of(node: Node) -> str:
    said = node.get("type")
    return said if isinstance(said, str) else ""


def is_set(node: Node, key: str) -> bool:
    return node.get(key) not in (None, "", False, [], {})
