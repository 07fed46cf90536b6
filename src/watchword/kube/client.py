"""The verbs of the Kubernetes API over a transport."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.api.json import limit_depth
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.sensitive import Sensitive
from watchword.kube.credentials import impersonation
from watchword.kube.errors import Gone, MalformedResponse, NotFound
from watchword.kube.request_sender import RequestSender, RetryPolicy, ServerCapabilities, decode, refusal
from watchword.kube.transport import InProcessTransport, RequestHandler, Transport

T = TypeVar("T")

RESTARTS = 3
"""How often a list starts again after its revision expired; the last attempt asks for a single page."""


class ListPage(Struct, Generic[T], frozen=True):
    """Items of one page, their revision, and the token of the next page (empty: this is the last)."""

    items: list[T]
    resource_version: str
    continue_token: str


async def collect(fetch: Callable[[str, int], Awaitable[ListPage[T]]], *, limit: int) -> tuple[list[T], str]:
    """Fetch page after page; when the revision expires (410), start again, the last time without a limit."""
    for restart in range(RESTARTS + 1):
        last_chance = restart == RESTARTS
        items: list[T] = []
        token = ""
        try:
            while True:
                page = await fetch(token, 0 if last_chance else limit)
                items.extend(page.items)
                token = page.continue_token
                if not token:
                    return items, page.resource_version
        except Gone:
            if not token:
                raise
    raise AssertionError("a list without a limit has no second page")


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_RawList).decode


def _read_list(body: bytes) -> _RawList:
    try:
        return _decode_list(body)
    except RecursionError:
        return _decode_list(limit_depth(body))


def read_raw_page(resource: Resource, response: Response) -> ListPage[bytes]:
    """Split a list into its items without decoding them; each gets its kind, as in watch events."""
    if not 200 <= response.status < 300:
        raise refusal(response)
    try:
        page = _read_list(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as cause:
        decode(response)  # raises a more exact error for what came instead
        raise MalformedResponse("the server answered a list request with something that is not a list") from cause
    prefix = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    items = [_with_kind(limit_depth(bytes(item)), prefix) for item in page.items or ()]
    return ListPage(items, page.metadata.resource_version, page.metadata.continue_)


def read_page(resource: Resource, response: Response) -> ListPage[Object]:
    """Decode a list; each item gets its kind, which built-in lists leave out."""
    answer = decode(response)
    items = answer.get("items") or []
    metadata = answer.get("metadata") or {}
    if not isinstance(items, list) or not isinstance(metadata, dict):
        raise MalformedResponse("the server answered a list request with something that is not a list")
    for item in items:
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
    return ListPage(items, str(metadata.get("resourceVersion") or ""), metadata.get("continue") or "")


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


class ObjectList(Struct, frozen=True):
    """The items of a list and the revision at which they were read."""

    items: list[Object]
    resource_version: str
    continue_token: str = ""


class RawList(Struct, frozen=True):
    """The items of a list as undecoded JSON, and the revision at which they were read."""

    items: list[bytes]
    resource_version: str


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
        self._with_type: dict[
            str, tuple[tuple[str, str], ...]
        ] = {}  # equal tuples are shared: transports cache by them
        spread = random or Random()  # noqa: S311 - spreads retries, guards nothing
        self._sender = RequestSender(
            transport, retry or RetryPolicy(), max_in_flight=max_in_flight, random=spread, now=now
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
        other = copy(self)
        other._sender = self._sender.over(transport)  # noqa: SLF001 - a copy of ourselves
        return other

    def impersonating(self, user: str, *, groups: tuple[str, ...] = ()) -> Client:
        other = copy(self)
        other._headers = (*self._headers, *impersonation(user, "", groups, {}))  # noqa: SLF001 - a copy of ourselves
        other._with_type = {}  # noqa: SLF001 - same
        return other

    def accepting(self, media_type: str) -> Client:
        """Return a client over the same connection that asks for another media type than JSON."""
        other = copy(self)
        kept = tuple(row for row in self._headers if row[0] != "Accept")
        other._headers = (("Accept", media_type), *kept)  # noqa: SLF001 - a copy of ourselves
        other._with_type = {}  # noqa: SLF001 - same
        return other

    async def get(self, resource: Resource, key: ObjectKey, *, subresource: str = "") -> Object:
        """Read one object; `NotFound` when it is not there."""
        return await self._object("GET", resource.path(key, subresource=subresource))

    async def find(self, resource: Resource, key: ObjectKey) -> Object | None:
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def list(
        self, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = "", limit: int = 500
    ) -> ObjectList:
        """Read a whole collection, page by page, as of one revision."""

        async def fetch(token: str, size: int) -> ListPage[Object]:
            query = _list_query(labels, fields, size, token)
            return read_page(resource, await self.request("GET", resource.path(namespace=namespace), query=query))

        return ObjectList(*await collect(fetch, limit=limit))

    async def list_raw(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        reduce: Callable[[bytes], bytes | None] = bytes,
    ) -> RawList:
        """Read a whole collection, page by page, without decoding the objects; `reduce` shortens or drops each."""

        async def fetch(token: str, size: int) -> ListPage[bytes]:
            query = _list_query(labels, fields, size, token)
            page = read_raw_page(resource, await self.request("GET", resource.path(namespace=namespace), query=query))
            kept = (reduce(item) for item in page.items)
            return replace(page, items=[item for item in kept if item is not None])

        return RawList(*await collect(fetch, limit=limit))

    async def create(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Create an object; with a subresource, post to that of the named object."""
        key = ObjectKey.of(obj)
        path = resource.path(key, subresource=subresource) if subresource else resource.path(namespace=key.namespace)
        return await self._object("POST", path, body=obj, query=_dry(dry_run))

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace an object; its resourceVersion, when present, must equal the stored one."""
        path = resource.path(ObjectKey.of(obj), subresource=subresource)
        return await self._object("PUT", path, body=obj, query=_dry(dry_run))

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
        """Apply fields by server-side apply; `Conflict` when another manager owns one and `force` is off."""
        query = {"fieldManager": manager, "force": "true" if force else "false", **_dry(dry_run)}
        path = resource.path(ObjectKey.of(obj), subresource=subresource)
        return await self._object("PATCH", path, body=obj, query=query, content_type=PatchType.APPLY)

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
        await self._object("DELETE", resource.path(key), body=options)

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        propagation: str = "Background",
    ) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        query = {"labelSelector": labels, "fieldSelector": fields}
        await self._object("DELETE", resource.path(namespace=namespace), body=options, query=query)

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

    async def _object(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        return decode(await self.request(method, path, body=body, query=query, content_type=content_type))


def _list_query(labels: str, fields: str, limit: int, token: str) -> dict[str, str]:
    return {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit or ""), "continue": token}


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001 - private, named at each call
    return {"dryRun": "All"} if dry_run else {}
