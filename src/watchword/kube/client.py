"""The verbs of the Kubernetes API over a transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.kube.errors import MalformedAnswer, NotFound, error_from_status
from watchword.kube.transport import Transport

FIELD_MANAGER = "watchword"


class Patch(StrEnum):
    """The media types of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The items of a list and the revision at which they were all true."""

    items: list[Object]
    resource_version: str
    continue_token: str = ""


class Client:
    """Speaks to one API server as one identity. Every verb raises the errors of `kube.errors`."""

    def __init__(self, transport: Transport, *, user_agent: str = "watchword") -> None:
        self.transport = transport
        self._headers = (("Accept", "application/json"), ("User-Agent", user_agent))

    async def get(self, resource: Resource, key: ObjectKey, *, subresource: str = "") -> Object:
        """Read one object; `NotFound` when it is not there."""
        return await self._object("GET", resource.path(key, subresource=subresource))

    async def find(self, resource: Resource, key: ObjectKey) -> Object | None:
        """Read one object, or None when it is not there."""
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = "", limit: int = 500
    ) -> ObjectList:
        """Read a whole collection, page by page, as of one revision."""
        items: list[Object] = []
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit), "continue": ""}
        while True:
            page = await self._object("GET", resource.path(namespace=namespace), query=query)
            items.extend(page.get("items") or [])
            metadata = page.get("metadata") or {}
            query["continue"] = metadata.get("continue") or ""
            if not query["continue"]:
                return ObjectList(items, str(metadata.get("resourceVersion") or ""))

    async def create(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Store a new object; with a subresource, post to that of the object named."""
        key = ObjectKey.of(obj)
        path = resource.path(key, subresource=subresource) if subresource else resource.path(namespace=key.namespace)
        return await self._object("POST", path, body=obj, query=_dry(dry_run))

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace an object; its resourceVersion, when present, must be the stored one."""
        path = resource.path(ObjectKey.of(obj), subresource=subresource)
        return await self._object("PUT", path, body=obj, query=_dry(dry_run))

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: Patch = Patch.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Change part of an object; put `metadata.uid`/`resourceVersion` in a merge patch as preconditions."""
        path = resource.path(key, subresource=subresource)
        return await self._object("PATCH", path, body=patch, query=_dry(dry_run), content_type=kind)

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        manager: str = FIELD_MANAGER,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Declare fields by server-side apply; `Conflict` when another manager owns one and `force` is off."""
        query = {"fieldManager": manager, "force": "true" if force else "false", **_dry(dry_run)}
        path = resource.path(ObjectKey.of(obj), subresource=subresource)
        return await self._object("PATCH", path, body=obj, query=query, content_type=Patch.APPLY)

    async def delete(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> None:
        """Delete one object; with `uid`, only that very one (`Conflict` otherwise)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        if preconditions:
            options["preconditions"] = preconditions
        await self._object("DELETE", resource.path(key), body=options)

    async def close(self) -> None:
        """Release the transport."""
        await self.transport.close()

    async def _object(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        headers = self._headers if body is None else (*self._headers, ("Content-Type", content_type))
        request = Request(
            method,
            path,
            query=tuple((k, v) for k, v in (query or {}).items() if v),
            headers=headers,
            body=b"" if body is None else orjson.dumps(body),
        )
        return decode(await self.transport.send(request))


def decode(response: Response) -> Object:
    """Return the object in an answer, or raise the error it describes."""
    try:
        parsed = orjson.loads(response.body)
    except orjson.JSONDecodeError as cause:
        if response.status >= 400:
            raise error_from_status(response.status, {"message": f"the server answered {response.status}"}) from cause
        raise MalformedAnswer(
            "the answer is not JSON: is this address a Kubernetes API server, or a proxy in front of it?"
        ) from cause
    if not isinstance(parsed, dict):
        raise MalformedAnswer("the answer is JSON but not an object: is this address a Kubernetes API server?")
    if response.status >= 400:
        raise error_from_status(response.status, parsed)
    return parsed


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001 - private, named at each call
    return {"dryRun": "All"} if dry_run else {}
