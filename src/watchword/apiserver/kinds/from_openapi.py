"""Reads the openAPIV3Schema of a CRD into the schema that every pass walks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Literal, cast

from msgspec import Struct

from watchword.apiserver.kinds.schema import ANYTHING, Schema, Type

Node = dict[str, Any]

JUNCTORS = ("anyOf", "allOf", "oneOf")
_CONSTRAINTS: Final[dict[str, tuple[type, ...]]] = {
    "enum": (list,),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), (bool,)),
    **dict.fromkeys(("format", "pattern", "title"), (str,)),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"), (int,)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), (int, float)),
}
_TYPES = frozenset(("object", "array", "string", "integer", "number", "boolean"))


def from_openapi(openapi: Any, *, metadata: Schema | None = None) -> Schema:
    """Return the schema that a JSON document describes; what is malformed is left out.

    With `metadata`, the schema of ObjectMeta, the document describes a whole resource.
    """
    reader = _Reader(metadata or ANYTHING)
    schema = reader.read(openapi)
    return reader.as_resource(schema) if metadata is not None else schema


class _Reader(Struct, frozen=True):
    metadata: Schema

    def read(self, node: Any) -> Schema:
        if not isinstance(node, dict):
            return ANYTHING
        keep = node.get("x-kubernetes-preserve-unknown-fields") is True
        default = node.get("default")
        schema = Schema(
            _type_of(node),
            description=text(node, "description"),
            properties={str(key): self.read(below) for key, below in (below(node, "properties") or {}).items()},
            additional=self._additional(node),
            items=self.read(node["items"]) if isinstance(node.get("items"), dict) else None,
            required=texts(node, "required"),
            nullable=node.get("nullable") is True,
            default=default,
            has_default=default is not None,
            preserve_unknown=keep,
            embedded_resource=node.get("x-kubernetes-embedded-resource") is True,
            list_type=_list_type(node),
            list_map_keys=texts(node, "x-kubernetes-list-map-keys"),
            map_type="atomic" if node.get("x-kubernetes-map-type") == "atomic" else "granular",
            constraints=self._constraints(node),
            rules=tuple(objects(node, "x-kubernetes-validations")),
        )
        return self.as_resource(schema) if schema.embedded_resource else schema

    def as_resource(self, schema: Schema) -> Schema:
        """Add what every resource has; the document may restrict its name, nothing else."""
        said = schema.properties.get("metadata")
        restricted = {} if said is None else {k: v for k, v in said.properties.items() if k in {"name", "generateName"}}
        metadata = replace(self.metadata, properties={**self.metadata.properties, **restricted})
        own = {"apiVersion": Schema("string"), "kind": Schema("string"), "metadata": metadata}
        return replace(schema, properties={**schema.properties, **own})

    def _additional(self, node: Node) -> Schema | None:
        said = node.get("additionalProperties")
        if isinstance(said, dict):
            return self.read(said)
        return ANYTHING if said is True else None

    def _constraints(self, node: Node) -> dict[str, Any]:
        found = {key: node[key] for key, kinds in _CONSTRAINTS.items() if key in node and type(node[key]) in kinds}
        for key in JUNCTORS:
            branches = node.get(key)
            if isinstance(branches, list) and branches:
                found[key] = tuple(self.read(branch) for branch in branches)
        if isinstance(node.get("not"), dict):
            found["not"] = self.read(node["not"])
        return found


def _type_of(node: Node) -> Type:
    if node.get("x-kubernetes-int-or-string") is True:
        return "int-or-string"
    said = text(node, "type")
    return cast("Type", said) if said in _TYPES else "any"


def _list_type(node: Node) -> Literal["atomic", "set", "map"]:
    said = node.get("x-kubernetes-list-type")
    return "map" if said == "map" else "set" if said == "set" else "atomic"


def below(node: Node, key: str) -> Node | None:
    """Return the single schema under a key: items, not, additionalProperties."""
    said = node.get(key)
    return said if isinstance(said, dict) else None


def objects(node: Node, key: str) -> list[Node]:
    said = node.get(key)
    return [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []


def text(node: Node, key: str) -> str:
    said = node.get(key)
    return said if isinstance(said, str) else ""


def texts(node: Node, key: str) -> tuple[str, ...]:
    said = node.get(key)
    return tuple(item for item in said if isinstance(item, str)) if isinstance(said, list) else ()


def properties_of(node: Node) -> dict[str, Node]:
    return {key: value for key, value in (below(node, "properties") or {}).items() if isinstance(value, dict)}


def nodes_of(openapi: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield a document and every schema of a value below it, each with its path."""
    yield path, openapi
    children = [(f"properties[{name}]", node) for name, node in properties_of(openapi).items()]
    for name, node in (*children, *((key, below(openapi, key)) for key in ("items", "additionalProperties"))):
        if node is not None:
            yield from nodes_of(node, f"{path}.{name}")
