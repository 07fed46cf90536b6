"""A minimal API in memory, for tests of the layers below an API server.

Supports get, list, watch, create, update, merge patch and delete with optimistic locking, but no kinds, schemas
or rights. Tests of reconcilers use a control plane.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import orjson

from watchword.api.http import Request, Response
from watchword.api.meta import Object
from watchword.kube.errors import Unreachable
from watchword.runtime.diff import apply_merge_patch


@dataclass
class MemoryApi:
    """Serves every path ending in a collection or a name; pass `handle` to an in-process transport."""

    objects: dict[str, Object] = field(default_factory=dict)
    revision: int = 1
    requests: list[tuple[str, str]] = field(default_factory=list)
    log: list[tuple[str, str, Object]] = field(default_factory=list)  # type, path, object
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: Request) -> Response:
        """Handle one request."""
        if request.parameter("watch"):
            return self._watch(request)
        self.requests.append((request.method, request.path))
        path = request.path.removesuffix("/status")
        body = orjson.loads(request.body) if request.body else {}
        if request.method == "GET":
            return self._get(path)
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        stored = self.objects.get(path)
        if request.method == "POST" and stored is not None:
            return status_response(409, "AlreadyExists")
        if request.method != "POST" and stored is None:
            return status_response(404, "NotFound")
        if stored is not None and not _agrees(stored, body):
            return status_response(409, "Conflict")
        return self._write(request.method, path, stored, body)

    def put(self, path: str, obj: Object) -> Object:
        """Store an object as if another client had written it."""
        return self._store("MODIFIED" if path in self.objects else "ADDED", path, obj)

    def remove(self, path: str) -> None:
        """Delete an object, if it exists, as if another client had done it."""
        if path in self.objects:
            self._store("DELETED", path, self.objects.pop(path))

    def _get(self, path: str) -> Response:
        if path in self.objects:
            return Response(200, body=orjson.dumps(self.objects[path]))
        items = [obj for at, obj in self.objects.items() if _is_in(path, at)]
        if items or path.rpartition("/")[2].endswith("s"):
            return Response(
                200, body=orjson.dumps({"metadata": {"resourceVersion": str(self.revision)}, "items": items})
            )
        return status_response(404, "NotFound")

    def _write(self, method: str, path: str, stored: Object | None, body: Object) -> Response:
        if method == "DELETE":
            self.remove(path)
            return Response(200, body=orjson.dumps({"kind": "Status", "status": "Success"}))
        obj = apply_merge_patch(stored or {}, body) if method == "PATCH" else body
        return Response(200, body=orjson.dumps(self._store("ADDED" if stored is None else "MODIFIED", path, obj)))

    def _store(self, kind: str, path: str, obj: Object) -> Object:
        self.revision += 1
        metadata = {"uid": f"uid-{self.revision}", **obj["metadata"], "resourceVersion": str(self.revision)}
        stored = {**obj, "metadata": metadata}
        if kind != "DELETED":
            self.objects[path] = stored
        self.log.append((kind, path, stored))
        self._moved.set()
        self._moved = asyncio.Event()
        return stored

    def _watch(self, request: Request) -> Response:
        if request.parameter("sendInitialEvents"):
            return status_response(400, "BadRequest")
        since, seconds = (int(request.parameter(name) or 0) for name in ("resourceVersion", "timeoutSeconds"))
        return Response(200, stream=self._events(request.path, since, seconds or 300))

    async def _events(self, path: str, since: int, seconds: int) -> AsyncIterator[bytes]:
        position, loop = 0, asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            while position < len(self.log):
                kind, at, obj = self.log[position]
                position += 1
                if _is_in(path, at) and int(obj["metadata"]["resourceVersion"]) > since:
                    yield orjson.dumps({"type": kind, "object": obj}) + b"\n"
            try:
                async with asyncio.timeout(60):
                    await self._moved.wait()
            except TimeoutError:
                mark = {"metadata": {"resourceVersion": str(self.revision)}}
                yield orjson.dumps({"type": "BOOKMARK", "object": mark}) + b"\n"


@dataclass
class DelayedConnection:
    """One client's transport to an API: `delay` says how long request and response take, None for a loss."""

    api: MemoryApi
    delay: Callable[[], float | None] = lambda: 0.0

    async def handle(self, request: Request) -> Response:
        """Deliver one request and its response, or lose either."""
        await self._travel()
        response = await self.api.handle(request)
        await self._travel()
        return response

    async def _travel(self) -> None:
        delay = self.delay()
        if delay is None:
            raise Unreachable("lost in transit")
        await asyncio.sleep(delay)


def status_response(code: int, reason: str) -> Response:
    """Return a Status as the API server would."""
    return Response(code, body=orjson.dumps({"kind": "Status", "code": code, "reason": reason, "message": reason}))


def _is_in(collection: str, path: str) -> bool:
    everywhere = re.sub(r"/namespaces/[^/]+/(?=[^/]+/)", "/", path)
    return f"{collection}/" in (f"{path.rpartition('/')[0]}/", f"{everywhere.rpartition('/')[0]}/")


def _agrees(stored: Object, body: Object) -> bool:
    wanted = {**(body.get("metadata") or {}), **(body.get("preconditions") or {})}
    metadata = stored["metadata"]
    return all(wanted.get(name) in (None, metadata[name]) for name in ("uid", "resourceVersion"))
