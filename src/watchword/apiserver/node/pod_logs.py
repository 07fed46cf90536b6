"""Serves `pods/log`: what a container of the process node has written, as kubectl asks for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import PODS
from watchword.apiserver.serving.errors import bad_request, not_found
from watchword.apiserver.serving.model import HandlerRequest, Registry

LARGEST_ANSWER = 16 * 1024 * 1024  # more than a log file grows to before it is set aside
FOLLOW_EVERY = 0.2  # seconds between two looks at a log that is followed
ENDED = ("Succeeded", "Failed")
TEXT = (("Content-Type", "text/plain"),)


def container_log(folder: Path, pod: Object, container: str) -> Path:
    return folder / uid_of(pod) / f"{container}.log"


class PodLogHandler(Struct, frozen=True):
    """Answers GET of `pods/log` with `container`, `tailLines`, `limitBytes` and `follow`."""

    registry: Registry
    folder: Path

    async def __call__(self, request: HandlerRequest) -> Response:
        """Return the log, whole or as a stream; 404 without the pod, 400 without the container."""
        if request.method != "GET":
            raise bad_request("a log can only be read")
        key = ObjectKey(request.info.namespace, request.info.name)
        pod = self.registry.get(PODS, key)
        if pod is None:
            raise not_found(PODS, key.name)
        container = choose_container(pod, request.parameter("container"))
        path = container_log(self.folder, pod, container)
        tail, limit = _number(request, "tailLines"), _number(request, "limitBytes")
        if request.parameter("follow") not in ("true", "1"):
            return Response(200, TEXT, _cut(_read(path), tail, limit))
        return Response(200, TEXT, stream=self._follow(path, tail, lambda: self._is_over(key, pod)))

    def _is_over(self, key: ObjectKey, pod: Object) -> bool:
        found = self.registry.get(PODS, key)
        return found is None or uid_of(found) != uid_of(pod) or (found.get("status") or {}).get("phase") in ENDED

    async def _follow(self, path: Path, tail: int | None, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
        whole = _read(path)
        position = len(whole)
        yield _cut(whole, tail, None)
        while True:
            over = is_over()  # before the last look: what is written until then is shown
            fresh = _read(path, position)
            position += len(fresh)
            if fresh:
                yield fresh
            if over:
                return
            await asyncio.sleep(FOLLOW_EVERY)


def choose_container(pod: Object, name: str) -> str:
    """Return the container that is meant; 400 when the pod has none of that name, or several and none is named."""
    names = [str(container["name"]) for container in pod["spec"]["containers"]]
    pod_name = pod["metadata"]["name"]
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    if not name and len(names) > 1:
        raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(names)}]")
    return name or names[0]


def _read(path: Path, position: int = 0) -> bytes:
    try:
        with path.open("rb") as log:
            log.seek(position)
            return log.read(LARGEST_ANSWER)
    except OSError:  # the container has not written anything yet
        return b""


def _cut(text: bytes, tail: int | None, limit: int | None) -> bytes:
    lines = text.splitlines(keepends=True)
    kept = b"".join(lines[max(0, len(lines) - tail) :]) if tail is not None else text
    return kept[:limit] if limit is not None else kept


def _number(request: HandlerRequest, name: str) -> int | None:
    text = request.parameter(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"{name} must be a number that is not negative")
    return int(text)
