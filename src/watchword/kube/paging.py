"""Lists whole collections at one revision, over as many pages as they take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.kube.errors import Gone, MalformedResponse
from watchword.kube.responses import decode, refusal

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


def read_raw_page(resource: Resource, response: Response) -> ListPage[bytes]:
    """Split a list into its items without decoding them; each gets its kind, as in watch events."""
    if not 200 <= response.status < 300:
        raise refusal(response)
    try:
        page = _decode_list(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as cause:
        decode(response)  # raises a more exact error for what came instead
        raise MalformedResponse("the server answered a list request with something that is not a list") from cause
    prefix = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    items = [_with_kind(bytes(item), prefix) for item in page.items or ()]
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
