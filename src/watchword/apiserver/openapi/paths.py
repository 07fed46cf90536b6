"""The paths of a kind with the operations that kubectl looks for: its verbs, its kind, its parameters."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.apiserver.discovery.subresources import subresources_of
from watchword.apiserver.model import ResourceKind
from watchword.apiserver.openapi.builtin_schemas import reference

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
    "force": "boolean",
    "limit": "integer",
    "timeoutSeconds": "integer",
    "watch": "boolean",
    "allowWatchBookmarks": "boolean",
    "sendInitialEvents": "boolean",
    "gracePeriodSeconds": "integer",
}
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
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
    """Return the paths of one kind whose schema is the named component."""
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
    for below in subresources_of(kind):
        path = _path(kind, component, _ITEM, verbs=below.verbs)
        if below.kind:
            _retarget(path, {"group": below.group or resource.group, "version": below.version, "kind": below.kind})
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
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    if action in ("post", "put"):
        operation["requestBody"] = {"content": {"*/*": {"schema": reference(component)}}, "required": True}
    if action == "patch":
        accepted = _PATCHES if kind.custom else (*_PATCHES, _STRATEGIC)
        body = {media: {"schema": {"type": "object"}} for media in accepted}
        operation["requestBody"] = {"content": body, "required": True}
    return operation


def _retarget(path: Object, group_version_kind: Object) -> None:
    for operation in path.values():
        operation["x-kubernetes-group-version-kind"] = group_version_kind


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
