"""OpenAPI documents: version 3 for each group and version, version 2 for all of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.apiserver.documents import discovery as documents
from watchword.apiserver.documents import openapi_schemas
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.messages import META, messages
from watchword.apiserver.serving.errors import not_acceptable
from watchword.apiserver.serving.model import HandlerRequest, ResourceKind

_PARAMETERS = {
    "dryRun": "all: judge the request and store nothing",
    "fieldManager": "who is recorded as owner of the changed fields",
    "fieldValidation": "what happens to unknown and duplicate fields: Ignore, Warn or Strict",
}
"""The query parameters of writes: kubectl looks for those that it wants to use."""
_ITEM = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_COLLECTION = {"list": "get", "create": "post", "deletecollection": "delete"}


def paths_of(kind: ResourceKind, component: str) -> Object:
    """Return what clients read of paths: which kind they are about, and what may be asked of a write."""
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    return {
        place: _path(kind, component, _COLLECTION),
        f"{place}/{{name}}": _path(kind, component, _ITEM),
    }


def _path(kind: ResourceKind, component: str, methods: dict[str, str]) -> Object:
    return {method: _operation(kind, component, verb) for verb, method in methods.items() if verb in kind.verbs}


def _operation(kind: ResourceKind, component: str, verb: str) -> Object:
    resource, action = kind.resource, {"create": "post", "update": "put"}.get(verb, verb)
    schema = openapi_schemas.reference(f"{component}List" if verb == "list" else component)
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
_SHARED = (openapi_schemas.OBJECT_META, openapi_schemas.LIST_META, f"{META}.DeleteOptions", f"{META}.Status")
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
    for name in sorted(openapi_schemas.closure(messages(), [*roots, *_SHARED])):
        root = name in roots or name in _SHARED[2:]
        schemas[name] = openapi_schemas.message_schema(messages(), name, root=root)
    for kind in kinds:
        name = component_of(kind)
        if kind.custom:
            schemas[name] = openapi_schemas.root_schema(kind.schema)
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
            "apiVersion": openapi_schemas.API_VERSION,
            "kind": openapi_schemas.KIND,
            "metadata": openapi_schemas.described(
                openapi_schemas.reference(openapi_schemas.LIST_META), "revision of the list and where it goes on"
            ),
            "items": {"type": "array", "description": "the objects", "items": openapi_schemas.reference(item)},
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
            return value.replace(openapi_schemas.REFERENCE, "#/definitions/")
        case "properties", dict():
            return {key: _as_v2(below) for key, below in value.items()}
        case (("items" | "additionalProperties"), dict()):
            return _as_v2(value)
        case _:
            return value


JSON = "application/json"


class CachedDocument(Struct, frozen=True):
    """One document, and the kinds it was drawn from."""

    kinds: tuple[ResourceKind, ...]
    body: bytes
    etag: str

    @property
    def hash(self) -> str:
        return self.etag.strip('"')


class OpenApiHandler:
    """Serves documents; each is drawn once and again only when one of its kinds changes."""

    def __init__(self, kinds: Callable[[], Sequence[ResourceKind]]) -> None:
        self._kinds = kinds
        self._drawn: dict[str, CachedDocument] = {}

    async def handle(self, request: HandlerRequest) -> Response:
        _require_json(request.header("accept"))
        path = request.info.path.strip("/")
        if path == "openapi/v3":
            return _answer(request, self._index(), media="text/plain; charset=utf-8")  # as upstream labels it
        if path == "openapi/v2":
            return _answer(request, self._draw("v2", tuple(self._kinds()), document_v2))
        place = path.removeprefix("openapi/v3/")
        kinds = self._places().get(place)
        if kinds is None or place == path:
            return documents.NOT_FOUND
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
