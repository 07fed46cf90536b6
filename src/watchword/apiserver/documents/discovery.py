"""The discovery documents, in both forms that clients use: per group, or aggregated."""

import base64
import hashlib
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from watchword import __version__
from watchword.api.http import Response
from watchword.api.meta import Object
from watchword.apiserver.serving.errors import resource_not_found, verb_not_allowed
from watchword.apiserver.serving.model import HandlerRequest, ResourceKind, without_empty
from watchword.apiserver.serving.negotiation import NOT_FOUND, object_response


class Subresource(Struct, frozen=True):
    """One subresource; an empty kind is the parent's."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_CHANGE = ("get", "patch", "update")
_KNOWN = {
    each.name: each
    for each in (
        Subresource("approval", _CHANGE),
        Subresource("binding", ("create",), kind="Binding"),
        Subresource("ephemeralcontainers", _CHANGE),
        Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
        Subresource("finalize", ("update",)),
        Subresource("log", ("get",)),
        Subresource("scale", _CHANGE, "autoscaling", "v1", "Scale"),
        Subresource("status", _CHANGE),
        Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    )
}


def subresources_of(kind: ResourceKind) -> list[Subresource]:
    return [_KNOWN.get(name, Subresource(name, _CHANGE)) for name in sorted(kind.subresources)]


_KUBE_VERSION = re.compile(r"v(\d{1,9})(?:(alpha|beta)(\d{1,9}))?", re.ASCII)
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def by_priority(versions: Iterable[str]) -> list[str]:
    """Return the versions, the preferred one first; names of another form come last, in order."""
    return sorted(set(versions), key=_key)


def _key(version: str) -> tuple[int, int, int, str]:
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    return _STAGES[match[2]], -int(match[1]), -int(match[3] or 0), version


def api_group_list(kinds: Sequence[ResourceKind]) -> Object:
    groups = [_group(group, kinds) for group in group_names(kinds) if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(kinds: Sequence[ResourceKind], group: str) -> Object | None:
    if not group or group not in group_names(kinds):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, kinds)}


def api_resource_list(kinds: Sequence[ResourceKind], group: str, version: str) -> Object | None:
    served = _served(kinds, group, version)
    if not served:
        return None
    found: Object = {"kind": "APIResourceList"}
    if group:
        found["apiVersion"] = "v1"
    found["groupVersion"] = f"{group}/{version}" if group else version
    found["resources"] = [entry for kind in served for entry in _legacy_entries(kind)]
    return found


def aggregated(kinds: Sequence[ResourceKind], *, core: bool) -> Object:
    groups = [group for group in group_names(kinds) if (group == "") == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(group, kinds) for group in groups],
    }


def group_names(kinds: Iterable[ResourceKind]) -> list[str]:
    """Return the served groups: built-in ones in their own order, then those of CRDs by name."""
    served = {kind.resource.group for kind in kinds}
    known = [group for group in GROUP_ORDER if group in served]
    return [*known, *sorted(served.difference(known))]


GROUP_ORDER = (
    *("", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch"),
    *("certificates.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io"),
    *("apiextensions.k8s.io", "coordination.k8s.io"),
)
"""The order in which kube-apiserver lists its own groups; clients take the first that has a short name."""


def versions_of(kinds: Iterable[ResourceKind], group: str) -> list[str]:
    return by_priority(kind.resource.version for kind in kinds if kind.resource.group == group)


def storage_version_hash(kind: ResourceKind) -> str:
    """Return the hash by which clients notice that objects are stored in another version."""
    place = kind.stored_as or kind.resource
    version = kind.storage_version or place.version
    digest = hashlib.sha256(f"{place.group}/{version}/{place.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _served(kinds: Iterable[ResourceKind], group: str, version: str) -> list[ResourceKind]:
    served = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, version)]
    return sorted(served, key=lambda kind: kind.resource.plural)


def _group(group: str, kinds: Iterable[ResourceKind]) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in versions_of(list(kinds), group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _legacy_entries(kind: ResourceKind) -> list[Object]:
    resource = kind.resource
    entry: Object = {
        "name": resource.plural,
        "singularName": kind.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    if kind.stored:
        entry["storageVersionHash"] = storage_version_hash(kind)
    return [entry, *(_legacy_subresource(kind, each) for each in subresources_of(kind))]


def _legacy_subresource(kind: ResourceKind, each: Subresource) -> Object:
    return {
        "name": f"{kind.resource.plural}/{each.name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
        **without_empty({"group": each.group, "version": each.version}),
        "kind": each.kind or kind.resource.kind,
        "verbs": list(each.verbs),
    }


def _aggregated_group(group: str, kinds: Sequence[ResourceKind]) -> Object:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {
                "version": version,
                "resources": [_aggregated_resource(kind) for kind in _served(kinds, group, version)],
                "freshness": "Current",
            }
            for version in versions_of(kinds, group)
        ],
    }


def _aggregated_resource(kind: ResourceKind) -> Object:
    resource = kind.resource
    entry: Object = {
        "resource": resource.plural,
        # Empty group and version mean those of the parent.
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular or resource.kind.lower(),
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    below = [
        {
            "subresource": each.name,
            "responseKind": {"group": each.group, "version": each.version, "kind": each.kind or resource.kind},
            "verbs": list(each.verbs),
        }
        for each in subresources_of(kind)
    ]
    return {**entry, "subresources": below} if below else entry


def _names(kind: ResourceKind) -> Object:
    return without_empty({"shortNames": list(kind.short_names), "categories": list(kind.categories)})


KUBERNETES = (1, 35)


def version_info() -> Object:
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


class DiscoveryHandler:
    """Serves the discovery documents; they are built again only when `generation` changes."""

    def __init__(self, kinds: Callable[[], Sequence[ResourceKind]], generation: Callable[[], int]) -> None:
        self._kinds = kinds
        self._generation = generation
        self._drawn: dict[bool, tuple[int, bytes, str]] = {}

    async def handle(self, request: HandlerRequest) -> Response:
        if request.method not in {"GET", "HEAD"}:
            raise verb_not_allowed()
        parts = request.info.path.strip("/").split("/")
        if parts in (["api"], ["apis"]) and accepts_aggregated(request.header("accept")):
            return self._aggregated(request, core=parts == ["api"])
        found = self._legacy(parts)
        groups = {kind.resource.group for kind in self._kinds() if not kind.custom}
        if found is None and parts[0] == "apis" and len(parts) == 3 and parts[1] in groups:
            raise resource_not_found()
        return NOT_FOUND if found is None else object_response(request, found)

    def _legacy(self, parts: list[str]) -> Object | None:
        found: Object | None = None
        match parts:
            case ["version"]:
                found = version_info()
            case ["api"]:
                addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
                found = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
            case ["apis"]:
                found = api_group_list(self._kinds())
            case ["api", version]:
                found = api_resource_list(self._kinds(), "", version)
            case ["apis", group]:
                found = api_group(self._kinds(), group)
            case ["apis", group, version]:
                found = api_resource_list(self._kinds(), group, version)
        return found

    def _aggregated(self, request: HandlerRequest, *, core: bool) -> Response:
        generation, body, etag = self._drawn.get(core, (-1, b"", ""))
        if generation != self._generation():
            body = orjson.dumps(aggregated(self._kinds(), core=core))
            etag = etag_of(body)
            self._drawn[core] = (self._generation(), body, etag)
        headers = (("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.header("if-none-match") == etag:
            return Response(304, headers)
        return Response(200, (("Content-Type", AGGREGATED), *headers), body)


def etag_of(document: bytes) -> str:
    return f'"{hashlib.sha512(document).hexdigest().upper()}"'


def accepts_aggregated(accept: str) -> bool:
    """Whether the first clause that can be served asks for the aggregated form."""
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters: dict[str, Any] = dict(part.partition("=")[::2] for part in rest)
        is_aggregated = parameters.get("as") == "APIGroupDiscoveryList"
        is_version = (parameters.get("g"), parameters.get("v")) == ("apidiscovery.k8s.io", "v2")
        if media in ("application/json", "*/*", "application/*") and (is_version or not is_aggregated):
            return is_aggregated
    return False
