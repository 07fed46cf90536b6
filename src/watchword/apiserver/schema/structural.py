"""Whether a schema is structural: every field has one type, and junctors only restrict."""

from collections.abc import Iterator
from typing import Literal

from watchword.apiserver.field_errors import forbidden, invalid, required
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.from_openapi import (
    INT_OR_STRING,
    JUNCTORS,
    Node,
    below,
    is_set,
    objects,
    properties_of,
    text,
)
from watchword.cel.re2_patterns import is_pattern

Level = Literal["root", "item", "field"]

_NO_TYPE: dict[str, str] = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN_IN_JUNCTORS = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_METADATA_ONLY_NAMES = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)


def check_structural(node: Node, path: str) -> list[FieldError]:
    """Return why a document is not a structural schema, sorted; empty when it is one."""
    return sorted([*_invariants(node, "root", path), *_completeness(node, node, path, path)], key=str)


def _invariants(node: Node, level: Level, path: str) -> Iterator[FieldError]:
    items, additional = below(node, "items"), node.get("additionalProperties")
    if text(node, "type") == "array" and node.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if items is not None:
        yield from _invariants(items, "item", f"{path}.items")
    for key, value in properties_of(node).items():
        yield from _invariants(value, "field", f"{path}.properties[{key}]")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _invariants(additional, "field", f"{path}.additionalProperties")
    yield from _extensions(node, path)
    yield from _junctors(node, path, pairs_allowed=True)
    yield from _type(node, level, path)
    yield from _resource(node, level, path)


def _extensions(node: Node, path: str) -> Iterator[FieldError]:
    if not is_set(node, "x-kubernetes-int-or-string"):
        return
    for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if is_set(node, key):
            yield invalid(f"{path}.{key}", value=True, detail="must be false if x-kubernetes-int-or-string is true")


def _type(node: Node, level: Level, path: str) -> Iterator[FieldError]:
    said, place = text(node, "type"), f"{path}.type"
    if is_set(node, "x-kubernetes-embedded-resource"):
        rule = "must be object if x-kubernetes-embedded-resource is true"
        if said != "object":
            yield invalid(place, said, rule) if said else required(place, rule)
        if node.get("additionalProperties") is not None:
            detail = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", detail)
        if not is_set(node, "x-kubernetes-preserve-unknown-fields") and not properties_of(node):
            detail = (
                "must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            )
            yield required(f"{path}.properties", detail)
    elif not said and not any(
        is_set(node, key) for key in ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    ):
        yield required(place, _NO_TYPE[level])
    if level == "root" and said and said != "object":
        yield invalid(place, said, "must be object at the root")


def _resource(node: Node, level: Level, path: str) -> Iterator[FieldError]:
    is_resource = level == "root" or is_set(node, "x-kubernetes-embedded-resource")
    known = properties_of(node)
    for key in ("kind", "apiVersion"):
        if is_resource and key in known and text(known[key], "type") != "string":
            yield invalid(f"{path}.properties[{key}].type", text(known[key], "type"), "must be string")
    if "metadata" not in known:
        return
    metadata, place = known["metadata"], f"{path}.properties[metadata]"
    if is_resource and text(metadata, "type") != "object":
        yield invalid(f"{place}.type", text(metadata, "type"), "must be object")
    if level == "root":
        extra = [key for key in metadata if key not in {"type", "properties", "default"} and is_set(metadata, key)]
        if extra or set(properties_of(metadata)) - {"name", "generateName"}:
            yield forbidden(place, _METADATA_ONLY_NAMES)


def _junctors(node: Node, path: str, *, pairs_allowed: bool) -> Iterator[FieldError]:
    """Check restrictions; `anyOf: [integer, string]` is the one way to name types in them."""
    for junctor in JUNCTORS:
        found = objects(node, junctor)
        if junctor == "anyOf" and pairs_allowed and found == INT_OR_STRING:
            continue
        for index, branch in enumerate(found):
            first = junctor == "allOf" and index == 0 and pairs_allowed
            yield from _nested(branch, f"{path}.{junctor}[{index}]", pairs_allowed=first)
    negated = below(node, "not")
    if negated is not None:
        yield from _nested(negated, f"{path}.not", pairs_allowed=False)
    pattern = node.get("pattern")
    if isinstance(pattern, str) and pattern and not is_pattern(pattern):
        yield invalid(f"{path}.pattern", pattern, "must be a valid regular expression, but isn't")


def _nested(node: Node, path: str, *, pairs_allowed: bool) -> Iterator[FieldError]:
    yield from _junctors(node, path, pairs_allowed=pairs_allowed)
    items = below(node, "items")
    if items is not None:
        yield from _nested(items, f"{path}.items", pairs_allowed=False)
    for key, value in properties_of(node).items():
        yield from _nested(value, f"{path}.properties[{key}]", pairs_allowed=False)
    for key, detail in _FORBIDDEN_IN_JUNCTORS.items():
        if is_set(node, key) or (key == "additionalProperties" and node.get(key) is not None):
            yield forbidden(f"{path}.{key}", detail)
    if "metadata" in properties_of(node):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(node: Node, schema: Node | None, path: str, place: str) -> Iterator[FieldError]:
    found = [(f"{junctor}[{i}]", branch) for junctor in JUNCTORS for i, branch in enumerate(objects(node, junctor))]
    negated = below(node, "not")
    if negated is not None:
        found.append(("not", negated))
    for name, branch in found:
        yield from _covered(branch, schema, path, f"{place}.{name}")


def _covered(branch: Node, schema: Node | None, path: str, place: str) -> Iterator[FieldError]:
    if schema is None:
        yield required(path, f"because it is defined in {place}")
        return
    yield from _completeness(branch, schema, path, place)
    items = below(branch, "items")
    if items is not None:
        yield from _covered(items, below(schema, "items"), f"{path}.items", f"{place}.items")
    known = properties_of(schema)
    for key, value in properties_of(branch).items():
        yield from _covered(value, known.get(key), f"{path}.properties[{key}]", f"{place}.properties[{key}]")
