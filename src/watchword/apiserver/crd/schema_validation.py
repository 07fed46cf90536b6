"""Validates an openAPIV3Schema beyond being structural."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.json import copy_json
from watchword.apiserver.crd.definition import SCHEMAS_REMEMBERED
from watchword.apiserver.field_errors import forbidden, invalid, not_supported, required
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.from_openapi import (
    JUNCTORS,
    Node,
    below,
    from_openapi,
    is_set,
    nodes_of,
    objects,
    properties_of,
    text,
)
from watchword.apiserver.schema.prune import prune
from watchword.apiserver.schema.validate import validate
from watchword.cel.evaluate import compile_expression
from watchword.cel.syntax import CelSyntaxError

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def check_validations(node: Node, path: str, uncorrelated: str) -> Iterator[FieldError]:
    """Yield what is wrong with the rules of one node.

    `uncorrelated` names the ancestor below which there is no oldSelf, if any.
    """
    for index, rule in enumerate(objects(node, "x-kubernetes-validations")):
        place = f"{path}.x-kubernetes-validations[{index}]"
        yield from _message_errors(rule, place)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            yield not_supported(f"{place}.reason", reason, _REASONS)
        if uncorrelated and _uses_old_self(text(rule, "rule")):
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield invalid(f"{place}.rule", rule.get("rule"), detail)


def _message_errors(rule: Node, place: str) -> Iterator[FieldError]:
    expression, message = text(rule, "rule").strip(), text(rule, "message")
    if not expression:
        yield required(f"{place}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{place}.message", message, "must be non-empty if specified")
    elif _has_break(message.strip()):
        yield invalid(f"{place}.message", message, "must not contain line breaks")
    elif _has_break(expression) and not message:
        yield required(f"{place}.message", "message must be specified if rule contains line breaks")
    if text(rule, "messageExpression") and not text(rule, "messageExpression").strip():
        yield required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def expression_errors(document: bytes, path: str) -> tuple[tuple[str, FieldError], ...]:
    found = ((place, each, _compilation_problem(each)) for place, each in expressions_of(orjson.loads(document), path))
    return tuple((each, invalid(place, each, problem)) for place, each, problem in found if problem)


def expressions_of(openapi: Node, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every expression of a document with its path."""
    for place, node in nodes_of(openapi, path):
        for index, rule in enumerate(objects(node, "x-kubernetes-validations")):
            for key in ("rule", "messageExpression"):
                yield f"{place}.x-kubernetes-validations[{index}].{key}", text(rule, key)


def _compilation_problem(expression: str) -> str:
    if not expression.strip():
        return ""  # reported as missing
    try:
        compile_expression(expression)
    except CelSyntaxError as error:
        return f"compilation failed: {error}"
    return ""


def _has_break(words: str) -> bool:
    return "\n" in words or "\r" in words


def _uses_old_self(expression: str) -> bool:
    try:
        return "oldSelf" in compile_expression(expression).referenced_variables
    except CelSyntaxError:
        return False  # refused elsewhere


UNREADABLE: Final = ("is not supported", "items must be a schema object and not an array")
"""How complaints end after which a document is not read any further."""

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_META_FIELDS: Final = frozenset(("metadata", "kind", "apiVersion"))
_MERGING: Final = {
    "x-kubernetes-map-type": ("object", ("atomic", "granular")),
    "x-kubernetes-list-type": ("array", ("atomic", "set", "map")),
}


class _NodeContext(Struct, frozen=True):
    """The context of a node, as far as rules depend on it."""

    is_root: bool = False
    inside_metadata: bool = False
    no_defaults: str = ""  # why defaults are forbidden here
    uncorrelated: str = ""  # the ancestor below which old and new values cannot be matched


def check_schema(openapi: Node, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if is_set(openapi, "nullable"):
        found.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    found.extend(_check(openapi, path, _NodeContext(is_root=True)))
    return found


def check_defaults(openapi: Node, path: str, *, is_root: bool = True) -> Iterator[FieldError]:
    """Yield defaults that their own schema would prune or refuse; for structural documents."""
    if openapi.get("default") is not None and not is_root:
        schema = from_openapi(openapi)
        value = copy_json(openapi["default"])
        if prune(value, schema):
            yield invalid(f"{path}.default", openapi["default"], "must not have unknown fields")
        else:
            for error in validate(value, schema):
                inner = f"{path}.default.{error.path}" if error.path else f"{path}.default"
                yield FieldError(inner, error.reason, error.message)
    if is_root and isinstance(openapi.get("default"), dict):
        missing = [key for key in ("apiVersion", "kind") if key not in openapi["default"]]
        yield from (required(f"{path}.default.{key}") for key in missing)
    for key, value in properties_of(openapi).items():
        if not (is_root and key in _META_FIELDS):
            yield from check_defaults(value, f"{path}.properties[{key}]", is_root=False)
    for key in ("items", "additionalProperties"):
        node = below(openapi, key)
        if node is not None:
            yield from check_defaults(node, f"{path}.{key}", is_root=False)


def _check(node: Node, path: str, place: _NodeContext) -> Iterator[FieldError]:
    yield from _keywords(node, path, place)
    yield from _children(node, path, place)
    yield from _merging(node, path)
    if text(node, "type") == "array" and node.get("x-kubernetes-list-type") in {"set", "map"}:
        yield from _unique_items(node, path)
    yield from check_validations(node, path, place.uncorrelated)


def _keywords(node: Node, path: str, place: _NodeContext) -> Iterator[FieldError]:
    said = text(node, "type")
    if said == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if said and said not in _TYPES:
        yield not_supported(f"{path}.type", said, _TYPES)
    if node.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    yield from (forbidden(f"{path}.{key}", f"{key} is not supported") for key in _UNSUPPORTED if is_set(node, key))
    if isinstance(node.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if is_set(node, "uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    if place.inside_metadata and is_set(node, "x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if node.get("additionalProperties") not in (None, True) and properties_of(node):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", detail)
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        detail = "must be true or undefined"
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", value=False, detail=detail)


def _children(node: Node, path: str, place: _NodeContext) -> Iterator[FieldError]:
    inner = replace(place, is_root=False)
    is_resource = place.is_root or is_set(node, "x-kubernetes-embedded-resource")
    fields = inner
    if node.get("x-kubernetes-map-type") == "atomic":
        fields = replace(inner, uncorrelated=place.uncorrelated or path)
    for key, value in properties_of(node).items():
        here = fields
        if is_resource and key in _META_FIELDS:
            banned = f"in top-level {key}" if place.is_root else here.no_defaults
            here = replace(here, inside_metadata=True, no_defaults=banned)
        yield from _check(value, f"{path}.properties[{key}]", here)
    additional, items = below(node, "additionalProperties"), below(node, "items")
    if additional is not None:
        banned = "inside additionalProperties applying to object metadata" if place.inside_metadata else ""
        yield from _check(additional, f"{path}.additionalProperties", replace(fields, no_defaults=banned))
    if items is not None:
        here = inner
        if node.get("x-kubernetes-list-type") != "map":
            here = replace(inner, uncorrelated=place.uncorrelated or path)
        yield from _check(items, f"{path}.items", here)
    for junctor in JUNCTORS:
        for index, branch in enumerate(objects(node, junctor)):
            yield from _check(branch, f"{path}.{junctor}[{index}]", inner)
    negated = below(node, "not")
    if negated is not None:
        yield from _check(negated, f"{path}.not", inner)


def _merging(node: Node, path: str) -> Iterator[FieldError]:
    for key, (wanted, supported) in _MERGING.items():
        said, place = node.get(key), f"{path}.type"
        if said is None:
            continue
        if text(node, "type") != wanted:
            rule = f"must be {wanted} if {key} is specified"
            yield invalid(place, text(node, "type"), rule) if text(node, "type") else required(place, rule)
        if said not in supported:
            yield not_supported(f"{path}.{key}", said, supported)
    keys, kind = node.get("x-kubernetes-list-map-keys"), node.get("x-kubernetes-list-type")
    if keys and kind != "map":
        rule, place = "must be map if x-kubernetes-list-map-keys is non-empty", f"{path}.x-kubernetes-list-type"
        yield invalid(place, kind, rule) if kind else required(place, rule)
    if kind == "map" and not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")


def _unique_items(node: Node, path: str) -> Iterator[FieldError]:
    kind, items = node["x-kubernetes-list-type"], below(node, "items")
    if items is None:
        if kind == "map":
            yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if is_set(items, "nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}")
    if kind == "set":
        yield from _set_items(items, f"{path}.items")
    elif text(items, "type") != "object":
        rule = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", text(items, "type"), rule)
    else:
        yield from _map_keys(node, items, path)


def _set_items(items: Node, path: str) -> Iterator[FieldError]:
    rule = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if text(items, "type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
        yield invalid(f"{path}.x-kubernetes-list-type", items.get("x-kubernetes-list-type"), rule)
    if text(items, "type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), rule)


def _map_keys(node: Node, items: Node, path: str) -> Iterator[FieldError]:
    keys = [key for key in node.get("x-kubernetes-list-map-keys") or () if isinstance(key, str)]
    place, known = f"{path}.x-kubernetes-list-map-keys", properties_of(items)
    if len(set(keys)) < len(keys):
        yield invalid(place, keys, "must not contain duplicate entries")
    for key in dict.fromkeys(keys):
        inner, prop = f"{path}.items.properties[{key}]", known.get(key)
        if prop is None:
            yield invalid(place, keys, "entries must all be names of item properties")
            continue
        if text(prop, "type") in {"array", "object"}:
            rule = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{inner}.type", "object", rule)
        listed = "this property is in x-kubernetes-list-map-keys"
        if prop.get("default") is None and key not in (items.get("required") or ()):
            yield required(f"{inner}.default", f"{listed}, so it must have a default or be a required property")
        if is_set(prop, "nullable"):
            yield forbidden(f"{inner}.nullable", f"{listed}, so it cannot be nullable")
