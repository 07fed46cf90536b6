"""How the requests of controllers are sent: the rules that every write of a process obeys."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.expiring_map import ExpiringMap
from watchword.api.http import Request, Response
from watchword.api.json import limit_depth
from watchword.kube.transport import Transport
from watchword.runtime.clock import Clock
from watchword.runtime.contested_writes import ContestedWrites
from watchword.runtime.errors import CreationContested, NotLeading
from watchword.runtime.metrics import Metrics
from watchword.runtime.raw_objects import is_newer


class Fence:
    """Decides until when this process may write.

    Both clocks must agree: the loop's time stops while a machine is suspended, the wall clock may be set back.
    """

    def __init__(self, clock: Clock, *, is_open: bool) -> None:
        self._clock = clock
        self._always = is_open
        self._until = 0.0
        self._wall_until: datetime | None = None
        self._writing: dict[asyncio.Timeout, None] = {}  # in the order in which they began

    def extend(self, seconds: float, *, since: float, wall_since: datetime) -> None:
        self._until = since + seconds
        self._wall_until = wall_since + timedelta(seconds=seconds)
        self._reschedule(self._until)

    def close(self) -> None:
        """Allow no writes from now on, and cancel those in flight."""
        self._always, self._until, self._wall_until = False, 0.0, None
        self._reschedule(0.0)

    @property
    def is_open(self) -> bool:
        if self._always:
            return True
        if self._wall_until is None or self._clock.now() >= self._wall_until:
            return False
        return asyncio.get_running_loop().time() < self._until

    @property
    def until(self) -> float:
        return self._until

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Run a write; raises `NotLeading` before it, or while it runs when leadership ends."""
        if not self.is_open:
            raise NotLeading("this process does not hold the lease, so it must not write")
        try:
            async with asyncio.timeout_at(None if self._always else self._until) as timeout:
                self._writing[timeout] = None
                try:
                    yield
                finally:
                    self._writing.pop(timeout, None)
        except TimeoutError as cause:
            if not timeout.expired():
                raise
            raise NotLeading("leadership ended while a write was in flight") from cause

    def _reschedule(self, until: float) -> None:
        for timeout in self._writing:
            if not timeout.expired():
                timeout.reschedule(until)


LONGEST_WAIT = 2.0
"""Seconds that a write waits for an earlier one: a request that hangs must not hold up other controllers."""

REMEMBERED_SECONDS = 10.0
"""For so long an older version is known to be outdated, unless the server shows it."""

REMEMBERED_OBJECTS = 1024
FIELD_CONFLICT = "FieldManagerConflict"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_MANAGER = re.compile(r'conflict with "([^"]{1,128})"')


class WriteThroughTransport:
    """Passes the response of every write to the cache, so that no reader here sees the replaced version."""

    def __init__(self, inner: Transport, observe_write: Callable[[bytes], None]) -> None:
        self._inner = inner
        self._observe_write = observe_write

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        if request.method in ("POST", "PUT", "PATCH") and response.status < 300 and not request.parameter("dryRun"):
            self._observe_write(response.body)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class ControllerTransport(WriteThroughTransport):
    """Lets reads pass, and writes by these rules, in this order.

    - Leadership: a write without it raises `NotLeading`; one in flight is cancelled when leadership ends.
    - Order: one PUT or PATCH of an object is in flight, and outdated ones are answered with 409 here. Controllers that
      reconcile the same object write it at the same time, each from the version that it read; the server would refuse
      all but one of these requests, because the first makes the versions of the others outdated.
    - Contests: a field that another program keeps changing back is left alone for a while (`FieldContested`).
    - Conflicts of an apply with other field managers are counted.
    - The cache has the result before the caller.
    """

    def __init__(
        self, inner: Transport, observe_write: Callable[[bytes], None], fence: Fence, metrics: Metrics
    ) -> None:
        super().__init__(inner, observe_write)
        self._fence = fence
        self._metrics = metrics
        self._contested = ContestedWrites()
        self._last: dict[str, asyncio.Future[None]] = {}  # by path: done once the write that came last has ended
        self._written: ExpiringMap[str, _Version] = ExpiringMap(REMEMBERED_OBJECTS)

    async def send(self, request: Request) -> Response:
        if request.method in _READS:
            response = await self._inner.send(request)
            # The server shows an older version: it was restored, or this read began before the write.
            if self._is_outdated(request.path, response.body):
                self._written.forget(lambda path: path == request.path)
            return response
        async with self._fence.guard():
            if request.method not in ("PUT", "PATCH") or request.parameter("dryRun"):
                return await self._write(request)
            return await self._write_in_order(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        if request.method not in _READS:
            raise NotLeading("a write cannot be streamed through the fence")
        return super().stream(request)

    async def _write_in_order(self, request: Request) -> Response:
        path = request.path.removesuffix("/status")
        async with self._turn(path):
            if self._is_outdated(path, request.body):
                return _CONFLICT
            response = await self._write(request)
            version = _version_in(response.body) if response.status < 300 else _Version()
            if version.uid and version.resource_version.isdigit():  # versions of other forms cannot be compared
                now = asyncio.get_running_loop().time()
                self._written.put(path, version, now=now, seconds=REMEMBERED_SECONDS)
            return response

    @asynccontextmanager
    async def _turn(self, path: str) -> AsyncIterator[None]:
        """Wait until the writes of the same object that came before have ended, but not for long."""
        before, ended = self._last.get(path), asyncio.get_running_loop().create_future()
        self._last[path] = ended
        try:
            if before is not None:
                await asyncio.wait([before], timeout=LONGEST_WAIT)
            yield
        finally:
            ended.set_result(None)
            if self._last.get(path) is ended:
                del self._last[path]

    def _is_outdated(self, path: str, body: bytes) -> bool:
        written = self._written.get(path, now=asyncio.get_running_loop().time())
        if written is None:
            return False
        read = _version_in(body)
        is_older = bool(read.resource_version) and is_newer(written.resource_version, read.resource_version)
        return is_older and read.uid == written.uid

    async def _write(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time()
        try:
            written = self._contested.enter(request, now)
        except CreationContested:
            if request.method != "PATCH" or not await self._is_there(request):
                raise
            written = self._contested.enter(request, now, is_there=True)
        response = await super().send(request)
        if response.status < 300:
            for name in self._contested.record(written, now, created=response.status == 201):
                self._metrics.contested_write(name)
        elif response.status == 409:
            for manager in conflicting_managers(response.body):
                self._metrics.field_conflict(manager)
        return response

    async def _is_there(self, request: Request) -> bool:
        """Whether the object of an apply exists: another program may have created it."""
        return (await self._inner.send(replace(request, method="GET", query=(), body=b""))).status == 200


def conflicting_managers(body: bytes) -> list[str]:
    """Return the managers that the server names in its refusal of an apply, each once."""
    try:
        causes = (orjson.loads(body).get("details") or {}).get("causes") or []
        messages = [str(cause.get("message")) for cause in causes if cause.get("reason") == FIELD_CONFLICT]
    except (AttributeError, TypeError, ValueError):
        return []  # not a Status: the sender of the request reports it
    named = [match[1] for message in messages if (match := _MANAGER.match(message))]
    return list(dict.fromkeys(named))


class _Version(Struct, rename="camel", gc=False):
    uid: str = ""
    resource_version: str = ""


class _Versioned(Struct, gc=False):
    metadata: _Version


_decode = msgspec.json.Decoder(_Versioned).decode


def _version_in(body: bytes) -> _Version:
    try:
        return _decode(limit_depth(body)).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError):  # a JSON patch, an apply in YAML, an answer that is no object
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
