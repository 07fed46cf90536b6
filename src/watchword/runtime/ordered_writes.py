"""Sends the writes of one object one after the other: controllers of a process would refuse each other otherwise."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager

import msgspec
import orjson
from msgspec import Struct

from watchword.api.http import Request, Response
from watchword.kube.transport import Transport
from watchword.runtime.raw_objects import is_newer

LONGEST_WAIT = 2.0
"""Seconds that a write waits for an earlier one: a request that hangs must not hold up other controllers."""

REMEMBERED_SECONDS = 10.0
"""For so long an older version is known to be outdated; a server that was restored has older versions later on."""

REMEMBERED_OBJECTS = 1024


class _Version(Struct, rename="camel", gc=False):
    uid: str = ""
    resource_version: str = ""


class _Versioned(Struct, gc=False):
    metadata: _Version


class _Written(Struct, frozen=True):
    version: _Version
    at: float  # by the loop's time


_decode = msgspec.json.Decoder(_Versioned).decode


class OrderedWriteTransport:
    """Lets one PUT or PATCH of an object be in flight, and answers outdated ones with 409 itself.

    Controllers that reconcile the same object write it at the same time, each from the version that it read. The
    server would refuse all but one of these requests, because the first makes the versions of the others outdated.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._last: dict[str, asyncio.Future[None]] = {}  # done once the write that came last has ended
        self._written: OrderedDict[str, _Written] = OrderedDict()

    async def send(self, request: Request) -> Response:
        """Send one request, a write once the writes of the same object before it have ended."""
        if request.method not in ("PUT", "PATCH") or request.parameter("dryRun"):
            return await self._inner.send(request)
        path = request.path.removesuffix("/status")
        loop = asyncio.get_running_loop()
        before, ended = self._last.get(path), loop.create_future()
        self._last[path] = ended
        try:
            if before is not None:
                await asyncio.wait([before], timeout=LONGEST_WAIT)
            if self._is_outdated(path, _version_in(request.body), now=loop.time()):
                return _CONFLICT
            response = await self._inner.send(request)
            self._remember(path, response, now=loop.time())
            return response
        finally:
            ended.set_result(None)
            if self._last.get(path) is ended:
                del self._last[path]

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Open a stream, unchanged."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()

    def _is_outdated(self, path: str, read: _Version, *, now: float) -> bool:
        written = self._written.get(path)
        if written is None or now - written.at > REMEMBERED_SECONDS or not read.resource_version:
            return False
        return read.uid == written.version.uid and is_newer(written.version.resource_version, read.resource_version)

    def _remember(self, path: str, response: Response, *, now: float) -> None:
        version = _version_in(response.body) if response.status < 300 else _Version()
        if not version.uid or not version.resource_version.isdigit():  # versions of other forms cannot be compared
            return
        self._written[path] = _Written(version, now)
        self._written.move_to_end(path)
        if len(self._written) > REMEMBERED_OBJECTS:
            self._written.popitem(last=False)


def _version_in(body: bytes) -> _Version:
    try:
        return _decode(body).metadata
    except msgspec.MsgspecError:  # a JSON patch, an apply in YAML, an answer that is no object
        return _Version()


_CONFLICT = Response(
    409,
    (("Content-Type", "application/json"),),
    orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Conflict",
            "code": 409,
            "message": "this process has changed the object since it was read: read it again",
        }
    ),
)
