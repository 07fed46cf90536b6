"""OpenAPI documents: version 3 for each group and version, version 2 for all of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.apiserver.discovery import documents
from watchword.apiserver.errors import not_acceptable
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.schemas import META, messages
from watchword.apiserver.model import HandlerRequest, ResourceKind
from watchword.apiserver.openapi.schemas import (
    API_VERSION,
    KIND,
    LIST_META,
    OBJECT_META,
    REFERENCE,
    closure,
    described,
    message_schema,
    reference,
    root_schema,
)

_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_PARAMETERS = {
    "dryRun": "all: judge the request and store nothing",
    "fieldManager": "who is recorded as owner of the changed fields",
    "fieldValidation": "what happens to unknown and duplicate fields: Ignore, Warn or Strict",
    "force": "take over applied fields that others own",
    "labelSelector": "only objects with these labels",
    "fieldSelector": "only objects with these field values",
    "limit": "at most this many objects; the answer says how to go on",
    "continue": "where the previous part of a list ended",
    "resourceVersion": "how recent the answer must be",
    "resourceVersionMatch": "how resourceVersion is meant",
    "timeoutSeconds": "how long the request may last",
    "watch": "stream changes instead of listing",
    "allowWatchBookmarks": "send bookmarks in a watch",
    "sendInitialEvents": "begin a watch with the present state",
    "gracePeriodSeconds": "time left to the object before it is removed",
    "propagationPolicy": "what happens to dependents: Orphan, Background or Foreground",
}
_TYPES = {
    **dict.fromkeys(("allowWatchBookmarks", "force", "sendInitialEvents", "watch"), "boolean"),
    **dict.fromkeys(("gracePeriodSeconds", "limit", "timeoutSeconds"), "integer"),
}
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit"),
    *("resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
)
_DELETE = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
# verb to HTTP method, action and query parameters
_ITEM = {
    "get": ("get", "get", ()),
    "update": ("put", "put", _WRITE),
    "patch": ("patch", "patch", (*_WRITE, "force")),
    "delete": ("delete", "delete", _DELETE),
    "create": ("post", "post", _WRITE),
}
_COLLECTION = {
    "list": ("get", "list", _LIST),
    "create": ("post", "post", _WRITE),
    "deletecollection": ("delete", "deletecollection", (*_LIST, *_DELETE)),
}


def paths_of(kind: ResourceKind, component: str) -> Object:
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    everywhere = f"{root}/{resource.plural}"
    collection = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else everywhere
    found: Object = {}
    if resource.namespaced and "list" in kind.verbs:
        found[everywhere] = _path(kind, component, {"list": _COLLECTION["list"]})
    found[collection] = _path(kind, component, _COLLECTION)
    item = _path(kind, component, {verb: how for verb, how in _ITEM.items() if verb != "create"})
    if item:
        found[f"{collection}/{{name}}"] = {**item, "parameters": _path_parameters(kind, named=True)}
    if resource.namespaced:
        found[collection]["parameters"] = _path_parameters(kind, named=False)
    for below in documents.subresources_of(kind):
        path = _path(kind, component, _ITEM, verbs=below.verbs)
        if below.kind:
            named = {"group": below.group or resource.group, "version": below.version, "kind": below.kind}
            path = {method: {**operation, GVK: named} for method, operation in path.items()}
        found[f"{collection}/{{name}}/{below.name}"] = {**path, "parameters": _path_parameters(kind, named=True)}
    return found


def _path(
    kind: ResourceKind,
    component: str,
    verbs_known: dict[str, tuple[str, str, tuple[str, ...]]],
    verbs: tuple[str, ...] | None = None,
) -> Object:
    return {
        method: _operation(kind, component, action, parameters)
        for verb, (method, action, parameters) in verbs_known.items()
        if verb in (kind.verbs if verbs is None else verbs)
    }


def _operation(kind: ResourceKind, component: str, action: str, parameters: tuple[str, ...]) -> Object:
    resource = kind.resource
    target = f"{component}List" if action == "list" else component
    operation: Object = {
        "tags": [f"{resource.group.partition('.')[0] or 'core'}_{resource.version}"],
        "description": f"{action} {resource.kind}",
        "operationId": f"{action}_{resource.group or 'core'}_{resource.version}_{resource.plural}",
        "parameters": [_parameter(name) for name in parameters],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": reference(target)}}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        GVK: _gvk(resource),
    }
    if action in ("post", "put"):
        operation["requestBody"] = {"content": {"*/*": {"schema": reference(component)}}, "required": True}
    if action == "patch":
        accepted = _PATCHES if kind.custom else (*_PATCHES, _STRATEGIC)
        body = {media: {"schema": {"type": "object"}} for media in accepted}
        operation["requestBody"] = {"content": body, "required": True}
    return operation


def _parameter(name: str) -> Object:
    return {
        "name": name,
        "in": "query",
        "description": _PARAMETERS[name],
        "schema": {"type": _TYPES.get(name, "string"), "uniqueItems": True},
    }


def _path_parameters(kind: ResourceKind, *, named: bool) -> list[Object]:
    names = (["name"] if named else []) + (["namespace"] if kind.resource.namespaced else [])
    words = {"name": f"name of the {kind.resource.kind}", "namespace": "namespace of the object"}
    return [
        {"name": name, "in": "path", "description": words[name], "required": True, "schema": {"type": "string"}}
        for name in names
    ]


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
        if held is None or not _is_same(held.kinds, kinds):
            body = orjson.dumps(draw(kinds))
            held = self._drawn[place] = CachedDocument(kinds, body, documents.etag_of(body))
        return held


def _is_same(held: tuple[ResourceKind, ...], wanted: tuple[ResourceKind, ...]) -> bool:
    # Kinds are compared by identity: a changed CRD is served as a new kind.
    return len(held) == len(wanted) and all(a is b for a, b in zip(held, wanted, strict=True))


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
