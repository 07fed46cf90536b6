"""OpenAPI documents: version 3 for each group and version, version 2 for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from watchword.api.meta import Object, Resource
from watchword.apiserver.discovery.version_info import version_info
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.fields import META
from watchword.apiserver.kinds.messages import messages
from watchword.apiserver.model import ResourceKind
from watchword.apiserver.openapi.builtin_schemas import (
    API_VERSION,
    KIND,
    LIST_META,
    OBJECT_META,
    REFERENCE,
    closure,
    described,
    message_schema,
    reference,
)
from watchword.apiserver.openapi.custom_schemas import root_schema
from watchword.apiserver.openapi.paths import paths_of

GVK = "x-kubernetes-group-version-kind"
_SHARED = (OBJECT_META, LIST_META, f"{META}.DeleteOptions", f"{META}.Status")
_V3_ONLY = ("oneOf", "anyOf", "allOf", "not", "nullable")


def document(kinds: Sequence[ResourceKind]) -> Object:
    """Return the OpenAPI v3 document of the kinds of one group and version."""
    found: Object = {}
    for kind in kinds:
        found |= paths_of(kind, component_of(kind))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version_info()["gitVersion"]},
        "paths": found,
        "components": {"schemas": _components(kinds)},
    }


def component_of(kind: ResourceKind) -> str:
    """Return the name of a kind's component, as Kubernetes names it."""
    resource = kind.resource
    if not kind.custom:
        return message_of(resource.group, resource.version, resource.kind)
    reversed_group = ".".join(reversed(resource.group.split(".")))
    return f"{reversed_group}.{resource.version}.{resource.kind}"


def document_v2(kinds: Sequence[ResourceKind]) -> Object:
    """Return the OpenAPI v2 document: definitions of every kind, for clients that read nothing newer."""
    untyped = {component_of(kind) for kind in kinds if kind.custom and kind.schema.preserve_unknown}
    definitions = {
        # With properties, kubectl would refuse every other field of an object that may have any.
        name: {"type": "object", GVK: schema[GVK]} if name in untyped else _as_v2(schema)
        for name, schema in _components(kinds).items()
    }
    info = {"title": "Kubernetes", "version": version_info()["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}


def _components(kinds: Iterable[ResourceKind]) -> Object:
    kinds = list(kinds)
    roots = {component_of(kind): kind.resource for kind in kinds if not kind.custom}
    schemas: Object = {}
    for name in sorted(closure(messages(), [*roots, *_SHARED])):
        root = name in roots or name in _SHARED[2:]
        schemas[name] = message_schema(messages(), name, root=root)
    for kind in kinds:
        name = component_of(kind)
        if kind.custom:
            schemas[name] = root_schema(kind.schema)
        schemas[name] = {**schemas[name], GVK: [_gvk(kind.resource)]}
        if "list" in kind.verbs:
            schemas[f"{name}List"] = _list_schema(kind.resource, name)
    return schemas


def _list_schema(resource: Resource, item: str) -> Object:
    return {
        "type": "object",
        "description": f"a list of {resource.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": described(reference(LIST_META), "revision of the list and where it goes on"),
            "items": {"type": "array", "description": "the objects", "items": reference(item)},
        },
        GVK: [{**_gvk(resource), "kind": f"{resource.kind}List"}],
    }


def _gvk(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _as_v2(schema: Object) -> Object:
    """Rewrite a schema for version 2: references point elsewhere, junctors do not exist."""
    if len(schema.get("allOf", ())) == 1:
        schema = {**{name: value for name, value in schema.items() if name != "allOf"}, **schema["allOf"][0]}
    if schema.get("format") == "int-or-string":
        schema = {**schema, "type": "string"}
    return {name: _value_as_v2(name, value) for name, value in schema.items() if name not in _V3_ONLY}


def _value_as_v2(name: str, value: Any) -> Any:
    match name, value:
        case "$ref", str():
            return value.replace(REFERENCE, "#/definitions/")
        case "properties", dict():
            return {key: _as_v2(below) for key, below in value.items()}
        case (("items" | "additionalProperties"), dict()):
            return _as_v2(value)
        case _:
            return value
