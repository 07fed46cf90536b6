"""Reads the nodes of an openAPIV3Schema document without trusting their types."""

from __future__ import annotations

from typing import Any

Node = dict[str, Any]

JUNCTORS = ("anyOf", "allOf", "oneOf")
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def as_node(value: Any) -> Node | None:
    """Return a value as a schema node, None when it is not one."""
    return value if isinstance(value, dict) else None


def below(node: Node, key: str) -> Node | None:
    """Return the single schema under a key: items, not, additionalProperties."""
    return as_node(node.get(key))


def properties_of(node: Node) -> dict[str, Node]:
    """Return the properties that are schemas."""
    said = as_node(node.get("properties")) or {}
    return {str(key): value for key, value in said.items() if isinstance(value, dict)}


def branches(node: Node, junctor: str) -> list[Node]:
    """Return the schemas of a junctor."""
    said = node.get(junctor)
    return [branch for branch in said if isinstance(branch, dict)] if isinstance(said, list) else []


def type_of(node: Node) -> str:
    """Return the declared type of the node, empty when there is none."""
    said = node.get("type")
    return said if isinstance(said, str) else ""


def is_set(node: Node, key: str) -> bool:
    """Whether a key has another value than the one it has when absent."""
    return node.get(key) not in (None, "", False, [], {})
