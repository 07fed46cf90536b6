"""The verbs of the Kubernetes API over a transport."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from datetime import timedelta
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any, Generic, Self, TypeVar

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.api.json import limit_depth
from watchword.api.meta import Object, ObjectKey, Resource, mapping_at
from watchword.api.sensitive import Sensitive
from watchword.kube.backoff import Throttle
from watchword.kube.credentials import impersonation
from watchword.kube.errors import Gone, MalformedResponse, NotFound
from watchword.kube.request_sender import (
    NO_RETRY,
    ClockSkewMeter,
    RequestSender,
    RetryPolicy,
    ServerCapabilities,
    decode,
    refusal,
)
from watchword.kube.transport import InProcessTransport, RequestHandler, Transport

T = TypeVar("T")

RESTARTS = 3
"""How often a list starts again after its revision expired; the last attempt asks for a single page."""


class ObjectList(Struct, Generic[T], frozen=True):
    """The items of a list and the revision at which they were read."""

    items: list[T]
    resource_version: str


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_RawList).decode


def _read_page(response: Response) -> _RawList:
    if not 200 <= response.status < 300:
        raise refusal(response)
    try:
        try:
            return _decode_list(response.body)
        except RecursionError:
            return _decode_list(limit_depth(response.body))
    except (msgspec.MsgspecError, UnicodeDecodeError) as cause:
        decode(response)  # raises a more exact error for what came instead
        raise MalformedResponse("the server answered a list request with something that is not a list") from cause


def _read_item(kind: Object, item: bytes) -> Object:
    try:
        obj: Object = kind | orjson.loads(item)
    except (orjson.JSONDecodeError, TypeError) as cause:
        raise MalformedResponse("the server answered a list request with an item that is no object") from cause
    if not isinstance(mapping_at(obj, "metadata").get("name"), str):
        raise MalformedResponse("the server answered a list request with an object that has no name")
    return obj


def _with_kind(item: bytes, prefix: bytes) -> bytes:
    # Typed lists print {"metadata":… for every item; objects that already carry their kind start otherwise.
    return prefix + item[1:] if item.startswith(b'{"metadata"') else item


FIELD_MANAGER = "watchword"


class PatchType(StrEnum):
    """The media types of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """Sends requests to one API server as one identity. Every verb raises the errors of `kube.errors`."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "watchword",
        retry: RetryPolicy | None = None,
        max_in_flight: int = 64,
        random: Random | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._headers: tuple[tuple[str, str], ...] = (("Accept", "application/json"), ("User-Agent", user_agent))
        # Equal tuples are shared: transports cache by them.
        self._with_type: dict[str, tuple[tuple[str, str], ...]] = {}
        spread = random or Random()  # noqa: S311 - spreads retries, guards nothing
        in_flight = asyncio.Semaphore(max_in_flight)
        self._sender = RequestSender(
            transport, retry or RetryPolicy(), in_flight, spread, Throttle(spread), ClockSkewMeter(now)
        )

    @classmethod
    def from_handler(
        cls, handle: RequestHandler, *, authorization: Sensitive[str] | None = None, **options: Any
    ) -> Client:
        return cls(InProcessTransport(handle, authorization=authorization), **options)

    @property
    def transport(self) -> Transport:
        return self._sender.transport

    @property
    def server(self) -> ServerCapabilities:
        return self._sender.server

    def over(self, transport: Transport) -> Client:
        """Return the same client over another transport; limits and retries are shared."""
        return self._with(replace(self._sender, transport=transport), self._headers)

    def without_retries(self) -> Client:
        return self._with(replace(self._sender, policy=NO_RETRY), self._headers)

    def impersonating(self, user: str, *, groups: tuple[str, ...] = ()) -> Client:
        return self._with(self._sender, (*self._headers, *impersonation(user, "", groups, {})))

    def accepting(self, media_type: str) -> Client:
        """Return a client over the same connection that asks for another media type than JSON."""
        kept = (row for row in self._headers if row[0] != "Accept")
        return self._with(self._sender, (("Accept", media_type), *kept))

    def _with(self, sender: RequestSender, headers: tuple[tuple[str, str], ...]) -> Client:
        other = copy(self)
        other._sender, other._headers, other._with_type = sender, headers, {}  # noqa: SLF001 - a copy of ourselves
        return other

    async def get(self, resource: Resource, key: ObjectKey) -> Object:
        """Read one object; `NotFound` when it does not exist."""
        return decode(await self.request("GET", object_path(resource, key)))

    async def find(self, resource: Resource, key: ObjectKey) -> Object | None:
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = "", limit: int = 500
    ) -> ObjectList[Object]:
        """Read a whole collection, page by page, as of one revision; each item has its kind."""
        read = partial(_read_item, {"apiVersion": resource.api_version, "kind": resource.kind})
        return await self.list_raw(
            resource, namespace=namespace, labels=labels, fields=fields, limit=limit, reduce=read
        )

    async def list_raw(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        reduce: Callable[[bytes], T | None],
    ) -> ObjectList[T]:
        """Read a whole collection; `reduce` decodes, shortens or drops each object before the next page is requested.

        When the revision expires (410) between two pages, it starts again, the last time without a limit.
        """
        path = collection_path(resource, namespace)
        prefix = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
        for size in (*[limit] * RESTARTS, 0):
            items: list[T] = []
            query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(size or "")}
            try:
                while True:
                    page = _read_page(await self.request("GET", path, query=query))
                    kept = (reduce(_with_kind(limit_depth(bytes(item)), prefix)) for item in page.items or ())
                    items += [item for item in kept if item is not None]
                    if not page.metadata.continue_:
                        return ObjectList(items, page.metadata.resource_version)
                    query["continue"] = page.metadata.continue_
            except Gone:
                if "continue" not in query or not size:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        path = collection_path(resource, ObjectKey.of(obj).namespace)
        return decode(await self.request("POST", path, body=obj, query=_dry(dry_run)))

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace an object; its resourceVersion, when present, must equal the stored one."""
        path = object_path(resource, ObjectKey.of(obj), subresource)
        return decode(await self.request("PUT", path, body=obj, query=_dry(dry_run)))

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Change part of an object; put `metadata.uid`/`resourceVersion` in a merge patch as preconditions."""
        path = object_path(resource, key, subresource)
        return decode(await self.request("PATCH", path, body=patch, query=_dry(dry_run), content_type=kind))

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
        """Apply fields by server-side apply; `Conflict` when another manager owns one and `force` is off."""
        query = {"fieldManager": manager, "force": "true" if force else "false", **_dry(dry_run)}
        path = object_path(resource, ObjectKey.of(obj), subresource)
        return decode(await self.request("PATCH", path, body=obj, query=query, content_type=PatchType.APPLY))

    async def delete(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> None:
        """Delete one object; with `uid`, only the object with that UID (`Conflict` otherwise)."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        if preconditions:
            options["preconditions"] = preconditions
        decode(await self.request("DELETE", object_path(resource, key), body=options))

    async def read(self, path: str, *, query: Mapping[str, str] | None = None) -> bytes:
        """Read any path (`/version`, `/readyz`, OpenAPI …) and return the response unchanged."""
        response = await self.request("GET", path, query=query)
        if not 200 <= response.status < 300:
            raise refusal(response)
        return response.body

    @property
    def clock_skew(self) -> timedelta | None:
        """The server's clock minus ours, accurate to about a second; None before the first response."""
        return self._sender.skew.skew

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Response:
        return await self._sender.send(self._build_request(method, path, query, body, content_type))

    def open(self, path: str, *, query: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Response]:
        """Start a GET whose response is read in chunks from `Response.stream`; a refusal is raised."""
        return self._sender.open(self._build_request("GET", path, query, None, ""))

    def _build_request(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, content_type: str
    ) -> Request:
        return Request(
            method,
            path,
            query=tuple((k, v) for k, v in query.items() if v) if query else (),
            headers=self._headers if body is None else self._headers_with(content_type),
            body=b"" if body is None else orjson.dumps(body),
        )

    def _headers_with(self, content_type: str) -> tuple[tuple[str, str], ...]:
        headers = self._with_type.get(content_type)
        if headers is None:
            headers = self._with_type[content_type] = (*self._headers, ("Content-Type", content_type))
        return headers


def object_path(resource: Resource, key: ObjectKey, subresource: str = "") -> str:
    """Return the path of one object; raises as `collection_path` does."""
    collection_path(resource, key.namespace, key.name)
    return resource.path(key, subresource=subresource)


def collection_path(resource: Resource, namespace: str, name: str = "all") -> str:
    """Return the path of the objects in a namespace, or in all.

    Raises `NotFound` for a name that no object can have: its path would lead elsewhere.
    """
    for part in (namespace or "all", name):
        if part in ("", ".", ".."):
            message = f"{resource.group_resource} {part!r} not found: no object can have this name"
            raise NotFound(message, code=404, status={"details": {"name": part or "."}})  # the kind itself is served
    return resource.path(namespace=namespace)


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001 - private, named at each call
    return {"dryRun": "All"} if dry_run else {}
