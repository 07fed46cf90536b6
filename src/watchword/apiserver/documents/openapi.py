"""OpenAPI documents: version 3 for each group and version, version 2 for all of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.apiserver.documents import discovery as documents
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.messages import META, SCALARS, UNIONS, Field, messages
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.kinds.typed import SCHEMA
from watchword.apiserver.serving.errors import not_acceptable
from watchword.apiserver.serving.model import HandlerRequest, ResourceKind, without_empty
from watchword.apiserver.serving.negotiation import NOT_FOUND

REFERENCE = "#/components/schemas/"
OBJECT_META = f"{META}.ObjectMeta"
LIST_META = f"{META}.ListMeta"

API_VERSION: Object = {"type": "string", "description": "APIVersion defines group and version of this object's schema"}
KIND: Object = {"type": "string", "description": "Kind is the name of this object's schema"}

_SCALARS: dict[str, Object] = {
    **{name: {"type": schema.type, **schema.constraints} for name, schema in SCALARS.items()},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "strings": {"type": "array", "items": {"type": "string"}},
    # kubectl explain stumbles over an empty schema
    "json": {"x-kubernetes-preserve-unknown-fields": True},
    **{name: {"$ref": f"{REFERENCE}{SCHEMA}"} for name in UNIONS},
}


def reference(name: str) -> Object:
    return {"$ref": f"{REFERENCE}{name}"}


def described(schema: Object, description: str) -> Object:
    """Return the schema with a description; a reference takes it through `allOf`."""
    if not description:
        return schema
    if "$ref" in schema:
        return {"description": description, "allOf": [schema]}
    return {"description": description, **schema}


def closure(roots: list[str]) -> set[str]:
    """Return every message that the roots lead to."""
    found, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(each.type for each in messages().json_fields(name) if each.is_message)
    return found


def message_schema(name: str, *, root: bool) -> Object:
    """Return the component of one message; a root also has apiVersion and kind."""
    message, fields = messages()[name], list(messages().json_fields(name))
    head = {"apiVersion": API_VERSION, "kind": KIND} if root else {}
    return without_empty(
        {
            "type": "object",
            "description": message.description,
            "properties": {**head, **{each.name: _property(each) for each in fields}},
            "required": [each.name for each in fields if each.required],
            "x-kubernetes-map-type": "atomic" if message.atomic else "",
        }
    )


def _property(each: Field) -> Object:
    inner = reference(each.type) if each.is_message else _SCALARS[each.type]
    if each.shape == "list":
        keys = without_empty({"x-kubernetes-list-map-keys": list(each.list_map_keys)})
        inner = {"type": "array", "items": inner, "x-kubernetes-list-type": each.list_type, **keys}
    elif each.shape == "map":
        kind = {"x-kubernetes-map-type": "atomic"} if each.atomic else {}
        inner = {"type": "object", "additionalProperties": inner, **kind}
    shown = described(inner, each.description)
    strategy, key = each.patch_strategy, each.patch_merge_key
    merging = without_empty({"x-kubernetes-patch-strategy": strategy, "x-kubernetes-patch-merge-key": key})
    return {**({"allOf": [shown]} if merging and "$ref" in shown else shown), **merging}


_X = "x-kubernetes-"
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_METADATA = described(reference(OBJECT_META), "Standard object's metadata: name, labels, owners and revision")


def root_schema(schema: Schema) -> Object:
    """Return the component of a whole custom object."""
    drawn = to_openapi(schema)
    own = {"apiVersion": API_VERSION, "kind": KIND, "metadata": _METADATA}
    return {**drawn, "properties": {**drawn.get("properties", {}), **own}}


def to_openapi(schema: Schema) -> Object:
    drawn = {
        "description": schema.description,
        **_type(schema),
        "properties": {name: to_openapi(below) for name, below in schema.properties.items()},
        "additionalProperties": to_openapi(schema.additional) if schema.additional is not None else None,
        "items": to_openapi(schema.items) if schema.items is not None else None,
        "required": list(schema.required),
        "nullable": schema.nullable,
    }
    default = {"default": schema.default} if schema.has_default else {}
    constraints = {name: _constraint(name, value) for name, value in schema.constraints.items()}
    # kubectl explain stumbles over an empty schema
    return without_empty(drawn) | default | constraints | _extensions(schema) or {f"{_X}preserve-unknown-fields": True}


def _type(schema: Schema) -> Object:
    if schema.type == "int-or-string":
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    return {} if schema.type == "any" else {"type": schema.type}


def _constraint(name: str, value: Any) -> Any:
    if name in _JUNCTORS:
        return [to_openapi(each) for each in value]
    return to_openapi(value) if isinstance(value, Schema) else value


def _extensions(schema: Schema) -> Object:
    is_keyed = schema.type == "array" and schema.list_type != "atomic"
    found = {
        "preserve-unknown-fields": schema.preserve_unknown,
        "embedded-resource": schema.embedded_resource,
        "list-type": schema.list_type if is_keyed else "",
        "list-map-keys": list(schema.list_map_keys) if is_keyed else [],
        "map-type": "atomic" if schema.map_type == "atomic" else "",
        "validations": [dict(rule) for rule in schema.rules],
    }
    return {f"{_X}{name}": value for name, value in without_empty(found).items()}


_PARAMETERS = {
    "dryRun": "all: judge the request and store nothing",
    "fieldManager": "who is recorded as owner of the changed fields",
    "fieldValidation": "what happens to unknown and duplicate fields: Ignore, Warn or Strict",
}
"""The query parameters of writes: kubectl looks for those that it wants to use."""
_ITEM = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_COLLECTION = {"list": "get", "create": "post", "deletecollection": "delete"}


def paths_of(kind: ResourceKind, component: str) -> Object:
    """Return the paths as clients read them: the kind of each, and the parameters of its writes."""
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    return {place: _path(kind, component, _COLLECTION), f"{place}/{{name}}": _path(kind, component, _ITEM)}


def _path(kind: ResourceKind, component: str, methods: dict[str, str]) -> Object:
    return {method: _operation(kind, component, verb) for verb, method in methods.items() if verb in kind.verbs}


def _operation(kind: ResourceKind, component: str, verb: str) -> Object:
    resource, action = kind.resource, {"create": "post", "update": "put"}.get(verb, verb)
    schema = reference(f"{component}List" if verb == "list" else component)
    names = _PARAMETERS if verb in ("create", "update", "patch") else {}
    return {
        "description": f"{action} {resource.kind}",
        "operationId": f"{action}_{resource.group or 'core'}_{resource.version}_{resource.plural}",
        "parameters": [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string", "uniqueItems": True}}
            for name, text in names.items()
        ],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        GVK: _gvk(resource),
    }


GVK = "x-kubernetes-group-version-kind"
_SHARED = (OBJECT_META, LIST_META, f"{META}.DeleteOptions", f"{META}.Status")
_V3_ONLY = ("oneOf", "anyOf", "allOf", "not", "nullable")


def document(kinds: Sequence[ResourceKind]) -> Object:
    found: Object = {}
    for kind in kinds:
        found |= paths_of(kind, component_of(kind))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": documents.version_info()["gitVersion"]},
        "paths": found,
        "components": {"schemas": _components(kinds)},
    }


def component_of(kind: ResourceKind) -> str:
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
    info = {"title": "Kubernetes", "version": documents.version_info()["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}


def _components(kinds: Iterable[ResourceKind]) -> Object:
    kinds = list(kinds)
    roots = {component_of(kind): kind.resource for kind in kinds if not kind.custom}
    schemas: Object = {}
    for name in sorted(closure([*roots, *_SHARED])):
        root = name in roots or name in _SHARED[2:]
        schemas[name] = message_schema(name, root=root)
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


JSON = "application/json"
PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
EMPTY_V2 = b"\n\x032.0\x12\x10\n\nKubernetes\x12\x02v1\x42\0"
"""A document of version 2 without definitions: kubectl reads it for kinds that version 3 does not have."""


class CachedDocument(Struct, frozen=True):
    """One document, and the kinds from which it was rendered."""

    kinds: tuple[ResourceKind, ...]
    body: bytes
    etag: str

    @property
    def hash(self) -> str:
        return self.etag.strip('"')


class OpenApiHandler:
    """Serves documents; each is rendered again only when one of its kinds changes."""

    def __init__(self, kinds: Callable[[], Sequence[ResourceKind]]) -> None:
        self._kinds = kinds
        self._drawn: dict[str, CachedDocument] = {}

    async def handle(self, request: HandlerRequest) -> Response:
        path = request.info.path.strip("/")
        if path == "openapi/v2" and PROTOBUF_V2 in request.header("accept").replace("@", "."):
            drawn = CachedDocument((), EMPTY_V2, documents.etag_of(EMPTY_V2))
            return _answer(request, drawn, media=PROTOBUF_V2)
        _require_json(request.header("accept"))
        if path == "openapi/v3":
            return _answer(request, self._index(), media="text/plain; charset=utf-8")  # as upstream labels it
        if path == "openapi/v2":
            return _answer(request, self._draw("v2", tuple(self._kinds()), document_v2))
        place = path.removeprefix("openapi/v3/")
        kinds = self._places().get(place)
        if kinds is None or place == path:
            return NOT_FOUND
        return _hashed_answer(request, self._draw(place, kinds, document), place)

    def index(self) -> dict[str, str]:
        places = self._places()
        drawn = {place: self._draw(place, kinds, document) for place, kinds in places.items()}
        return {place: f"/openapi/v3/{place}?hash={each.hash}" for place, each in drawn.items()}

    def _index(self) -> CachedDocument:
        paths = {place: {"serverRelativeURL": url} for place, url in self.index().items()}
        body = orjson.dumps({"paths": paths})
        return CachedDocument((), body, documents.etag_of(body))

    def _places(self) -> dict[str, tuple[ResourceKind, ...]]:
        kinds = self._kinds()
        found: dict[str, tuple[ResourceKind, ...]] = {}
        for group in documents.group_names(kinds):
            for version in documents.versions_of(kinds, group):
                served = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, version)]
                found[f"apis/{group}/{version}" if group else f"api/{version}"] = tuple(served)
        return found

    def _draw(
        self, place: str, kinds: tuple[ResourceKind, ...], draw: Callable[[Sequence[ResourceKind]], object]
    ) -> CachedDocument:
        held = self._drawn.get(place)
        if held is None or not (
            len(held.kinds) == len(kinds) and all(a is b for a, b in zip(held.kinds, kinds, strict=True))
        ):
            body = orjson.dumps(draw(kinds))
            held = self._drawn[place] = CachedDocument(kinds, body, documents.etag_of(body))
        return held


def _answer(request: HandlerRequest, drawn: CachedDocument, *extra: tuple[str, str], media: str = JSON) -> Response:
    headers = (("ETag", drawn.etag), ("Vary", "Accept"), *extra)
    if request.header("if-none-match") == drawn.etag:
        return Response(304, headers)
    return Response(200, (("Content-Type", media), *headers), drawn.body)


def _hashed_answer(request: HandlerRequest, drawn: CachedDocument, place: str) -> Response:
    wanted = request.parameter("hash")
    if not wanted:
        return _answer(request, drawn)
    if wanted == drawn.hash:
        return _answer(request, drawn, ("Cache-Control", "public, immutable"))
    return Response(301, (("Location", f"/openapi/v3/{place}?hash={drawn.hash}"),))


def _require_json(accept: str) -> None:
    clauses = [clause.partition(";")[0].strip() for clause in accept.split(",")]
    if accept and not {JSON, "application/*", "*/*"} & set(clauses):
        raise not_acceptable((JSON,))
