"""Serves `/api`, `/apis` and everything below them that names no resource."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from watchword import __version__
from watchword.api.http import Response
from watchword.api.meta import Object
from watchword.apiserver.discovery import documents
from watchword.apiserver.errors import resource_not_found, verb_not_allowed
from watchword.apiserver.model import HandlerRequest, ResourceKind
from watchword.apiserver.negotiation import object_response

KUBERNETES = (1, 35)


def version_info() -> Object:
    """Return the version of the API, marked as Watchword's own implementation of it."""
    major, minor = KUBERNETES
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(major),
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": f"v{major}.{minor}.0+watchword.{__version__.replace('+', '.')}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{machine}",
    }


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NOT_FOUND = Response(404, (("Content-Type", "text/plain; charset=utf-8"),), b"404 page not found\n")


class DiscoveryHandler:
    """Serves the discovery documents; they are built again only when `generation` changes."""

    def __init__(
        self, kinds: Callable[[], Sequence[ResourceKind]], generation: Callable[[], int], server_address: str
    ) -> None:
        self._kinds = kinds
        self._generation = generation
        self._server_address = server_address
        self._drawn: dict[bool, tuple[int, bytes, str]] = {}

    async def handle(self, request: HandlerRequest) -> Response:
        """Handle a request for `/api`, `/apis`, a group, a version, or `/version`."""
        if request.method not in {"GET", "HEAD"}:
            raise verb_not_allowed()
        parts = request.info.path.strip("/").split("/")
        if parts in (["api"], ["apis"]) and accepts_aggregated(request.header("accept")):
            return self._aggregated(request, core=parts == ["api"])
        found = self._legacy(parts)
        if found is None and parts[0] == "apis" and len(parts) == 3 and self._has_builtin(parts[1]):
            raise resource_not_found()
        return _NOT_FOUND if found is None else object_response(request, found)

    def _has_builtin(self, group: str) -> bool:
        return any(kind.resource.group == group and not kind.custom for kind in self._kinds())

    def _legacy(self, parts: list[str]) -> Object | None:
        if parts == ["version"]:
            return version_info()
        if parts == ["api"]:
            return documents.api_versions(self._server_address)
        return _legacy_document(self._kinds(), parts)

    def _aggregated(self, request: HandlerRequest, *, core: bool) -> Response:
        body, etag = self._aggregated_body(core=core)
        headers = (("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.header("if-none-match") == etag:
            return Response(304, headers)
        return Response(200, (("Content-Type", AGGREGATED), *headers), body)

    def _aggregated_body(self, *, core: bool) -> tuple[bytes, str]:
        generation = self._generation()
        drawn = self._drawn.get(core)
        if drawn is None or drawn[0] != generation:
            body = orjson.dumps(documents.aggregated(self._kinds(), core=core))
            drawn = self._drawn[core] = (generation, body, etag_of(body))
        return drawn[1], drawn[2]


def _legacy_document(kinds: Sequence[ResourceKind], parts: list[str]) -> Object | None:
    match parts:
        case ["apis"]:
            return documents.api_group_list(kinds)
        case ["api", version]:
            return documents.api_resource_list(kinds, "", version)
        case ["apis", group]:
            return documents.api_group(kinds, group)
        case ["apis", group, version]:
            return documents.api_resource_list(kinds, group, version)
        case _:
            return None


def etag_of(document: bytes) -> str:
    """Return the quoted hash that names one state of a document."""
    return f'"{hashlib.sha512(document).hexdigest().upper()}"'


def accepts_aggregated(accept: str) -> bool:
    """Whether the first form a client names that we serve is the aggregated one."""
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters: dict[str, Any] = dict(part.partition("=")[::2] for part in rest)
        if media not in ("application/json", "*/*", "application/*"):
            continue
        wanted = parameters.get("as")
        if wanted == "APIGroupDiscoveryList":
            if (parameters.get("g"), parameters.get("v")) == ("apidiscovery.k8s.io", "v2"):
                return True
            continue
        return False
    return False
