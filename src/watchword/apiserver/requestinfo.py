"""Derives what a request asks for from method, path and query."""

from __future__ import annotations

from urllib.parse import unquote

from watchword.apiserver.model import ApiError, RequestInfo
from watchword.apiserver.request_selectors import parse_field_selector

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})

Query = tuple[tuple[str, str], ...]


def read_request_info(method: str, path: str, query: Query = ()) -> RequestInfo:
    """Return the attributes that authorization and routing decide on.

    The path is decoded before it is cut, as upstream does: what is authorised is what is served.
    """
    parts = unquote(path).strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        return _resource_request(method, path, query, group="", parts=parts[1:])
    if parts[0] == "apis" and len(parts) >= 4:
        return _resource_request(method, path, query, group=parts[1], parts=parts[2:])
    return RequestInfo(verb=method.lower(), path=unquote(path))


def _resource_request(method: str, path: str, query: Query, *, group: str, parts: list[str]) -> RequestInfo:
    version, rest = parts[0], parts[1:]
    verb = _VERBS.get(method, "")
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    if not name and verb == "get":
        verb = "watch" if is_truthy(_first(query, "watch")) else "list"
    if not name and verb in {"list", "watch"}:
        name = _pinned_name(_first(query, "fieldSelector"))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(
        verb=verb,
        path=unquote(path),
        is_resource=True,
        group=group,
        version=version,
        resource=rest[0],
        subresource=rest[2] if len(rest) > 2 else "",
        namespace=namespace,
        name=name,
    )


def is_truthy(value: str | None) -> bool:
    """Whether a boolean query parameter is on; present without a value counts as on."""
    return value is not None and value.lower() not in {"false", "0"}


def _first(query: Query, name: str) -> str | None:
    return next((value for key, value in query if key == name), None)


def _pinned_name(selector: str | None) -> str:
    if not selector:
        return ""
    try:
        return parse_field_selector(selector).exact("metadata.name") or ""
    except ApiError:
        return ""  # the verb itself will refuse the selector
