"""One watch connection: splits chunks into lines, parses events, and detects silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

import msgspec
import orjson
from msgspec import Struct

from watchword.api.json import limit_depth
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.kube.errors import MalformedResponse, Stalled, Unreachable, error_from_status

if TYPE_CHECKING:
    from watchword.kube.client import Client

LINE_LIMIT = 8 * 1024 * 1024
"""More than any API server stores in one object; a longer line is an attack or not Kubernetes."""

BUFFERED = 0.001
"""Seconds within which a chunk that has already arrived is returned: as long as there are any, no pause is made."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_NO_KEY = ObjectKey("", "")


class WatchEvent(Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, with the undecoded object."""

    type: str
    raw: bytes
    resource_version: str
    key: ObjectKey = _NO_KEY  # of a bookmark it means nothing
    ends_initial_events: bool = False

    def decode(self) -> Object:
        """Return the object; for a bookmark only its resourceVersion is meaningful."""
        decoded: Object = orjson.loads(self.raw)
        return decoded


class WatchQuery(Struct, frozen=True):
    """What to watch, from which revision, and how long silence is tolerated (seconds)."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    send_initial_events: bool = False
    timeout_seconds: int = 0
    stall_after: float = 90.0  # bookmarks come every minute, once the first has come on this connection
    initial_events_timeout: float = 10.0  # the same until the initial events have ended
    collect_for: float = 0.0  # while events come more often than this, those of so many seconds are yielded together

    def parameters(self) -> dict[str, str]:
        """Return the query parameters; empty ones are left out by the client."""
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": self.labels,
            "fieldSelector": self.fields,
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(self.timeout_seconds or ""),
            **(initial if self.send_initial_events else {}),
        }


async def watch_events(client: Client, resource: Resource, query: WatchQuery) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of one connection until the server ends it.

    Raises `Gone` when the revision is too old, `Stalled` after too long a silence, `Unreachable` when the
    connection breaks, and the server's own refusal. Close the generator (`aclosing`) to close the connection.
    """
    path = resource.path(namespace=query.namespace)
    async with client.open(path, query=query.parameters()) as response:
        if response.stream is None:
            raise MalformedResponse("the server answered a watch with a whole body: is this a Kubernetes API server?")
        chunks = aiter(response.stream)
        splitter = LineSplitter()
        # A server sends bookmarks only for revisions after the start of the watch: an unchanged kind gets none.
        begun, unheard = query.resource_version, max(query.stall_after, query.timeout_seconds + 30.0)
        patience = query.initial_events_timeout if query.send_initial_events else unheard
        collect_for = 0.0 if query.send_initial_events else query.collect_for
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while (chunk := await _next_chunk(chunks, patience)) is not None:
            is_busy = BUFFERED < loop.time() - asked < collect_for
            for line in splitter.feed(chunk):
                event = parse_watch_event(line)
                if event.ends_initial_events:
                    begun, patience, collect_for = event.resource_version, unheard, query.collect_for
                elif event.type == "BOOKMARK" and event.resource_version != begun:
                    patience = query.stall_after
                yield event
            if is_busy:
                await asyncio.sleep(collect_for)
            asked = loop.time()
        if splitter.pending:
            raise Unreachable("the connection was cut in the middle of a watch event")


async def _next_chunk(chunks: AsyncIterator[bytes], patience: float) -> bytes | None:
    try:
        async with asyncio.timeout(patience):
            return await anext(chunks)
    except StopAsyncIteration:
        return None
    except TimeoutError as cause:
        raise Stalled(f"the watch was silent for {patience:g} seconds, without even a bookmark") from cause


class LineSplitter:
    """Splits a byte stream into lines of any length up to a limit, in linear time."""

    __slots__ = ("_limit", "_pieces", "_size")

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        return self._size > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk and return the lines that it completes, without empty ones."""
        head, newline, rest = chunk.partition(b"\n")
        self._hold(head)
        if not newline:
            return []
        first = b"".join(self._pieces)
        *whole, tail = rest.split(b"\n")
        self._pieces, self._size = [], 0
        self._hold(tail)
        return [line for line in (first, *whole) if line.strip()]

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise MalformedResponse(f"the server sent a watch event of more than {self._limit} bytes")


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, gc=False):
    metadata: _Metadata


class _BookmarkMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMetadata


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


def parse_watch_event(line: bytes) -> WatchEvent:
    """Decode one line as far as needed; an ERROR event is raised as the error that it describes."""
    try:
        envelope = _decode_envelope(line)
        if envelope.type in _CHANGES:
            raw = limit_depth(bytes(envelope.object))
            metadata = _decode_head(raw).metadata
            key = ObjectKey(metadata.namespace, metadata.name)
            return WatchEvent(envelope.type, raw, metadata.resource_version, key)
        if envelope.type == "BOOKMARK":
            bookmark = _decode_bookmark(raw := bytes(envelope.object)).metadata
            ends = (bookmark.annotations or {}).get(INITIAL_EVENTS_END) == "true"
            return WatchEvent("BOOKMARK", raw, bookmark.resource_version, ends_initial_events=ends)
        status = orjson.loads(bytes(envelope.object))
    except RecursionError:
        return parse_watch_event(limit_depth(line))
    except (msgspec.MsgspecError, orjson.JSONDecodeError, UnicodeDecodeError) as cause:
        raise MalformedResponse("the server sent a line that is not a watch event") from cause
    if envelope.type != "ERROR" or not isinstance(status, dict):
        raise MalformedResponse("the server sent a watch event of an unknown type")
    code = status.get("code")
    raise error_from_status(code if isinstance(code, int) else 500, status)
