"""Runs a controller's work: each key once at a time, again when triggered meanwhile or when it failed."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.apiserver.serving.model import ApiError, Registry

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.005
LONGEST_RETRY_SECONDS = 60.0

Watches = Mapping[Resource, Callable[[str, Object], None]]
"""What is listened to, and who listens."""


class Worker(Struct, Generic[K], eq=False):
    """Triggers are cheap and collapse; nothing runs before `start` or after `stop`."""

    name: str
    sync: Callable[[K], Awaitable[float | None]]
    parallel: int = 32  # writes that wait together commit together
    _open: bool = False
    _queue: deque[K] = field(default_factory=deque)
    _ready: set[K] = field(default_factory=set)  # what is in the queue
    _again: set[K] = field(default_factory=set)  # what was triggered while it runs
    _running: dict[K, asyncio.Task[None]] = field(default_factory=dict)
    _timers: dict[K, asyncio.TimerHandle] = field(default_factory=dict)
    _failures: dict[K, int] = field(default_factory=dict)

    def start(self) -> None:
        self._open = True

    async def stop(self) -> None:
        """Drop what waits, cancel what runs, and return when all of it has ended."""
        self._open = False
        for waiting in (self._queue, self._ready, self._again):
            waiting.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def enqueue(self, key: K) -> None:
        if not self._open:
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._ready:
            self._ready.add(key)
            self._queue.append(key)
            self._pump()

    def recheck(self) -> None:
        """Enqueue every key that waits for a time: the wall clock, by which that time was chosen, has changed."""
        for key in list(self._timers):
            self.enqueue(key)

    def _pump(self) -> None:
        while self._queue and len(self._running) < self.parallel:
            key = self._queue.popleft()
            self._ready.discard(key)
            self._running[key] = asyncio.get_running_loop().create_task(self._run(key), name=f"{self.name} {key}")

    async def _run(self, key: K) -> None:
        try:
            delay = await self._attempt(key)
        finally:
            self._running.pop(key, None)
        if not self._open:
            return
        if key in self._again:
            self._again.discard(key)
            self.enqueue(key)
        elif delay is not None:
            self._timers[key] = asyncio.get_running_loop().call_later(delay, self.enqueue, key)
        self._pump()

    async def _attempt(self, key: K) -> float | None:
        try:
            delay = await self.sync(key)
        except ApiError:  # a conflict, or the object is not ready: the retry reads the new state
            return self._backoff(key)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the controller
            context = {"message": f"{self.name} failed and will try again", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return self._backoff(key)
        self._failures.pop(key, None)
        return delay

    def _backoff(self, key: K) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return float(min(FIRST_RETRY_SECONDS * 2 ** min(failures, 20), LONGEST_RETRY_SECONDS))


class Controller(Struct, Generic[K], eq=False, dict=True):
    """A service that calls `sync` for each key; changes of the kinds that it watches enqueue keys."""

    registry: Registry

    def __post_init__(self) -> None:
        self.worker: Worker[K] = Worker(type(self).__name__, self.sync)
        self._stops: list[Callable[[], None]] = []

    def watches(self) -> Watches:
        return {}

    @abstractmethod
    async def sync(self, key: K) -> float | None:
        """Return after how many seconds to look again, None when only an event matters."""

    async def start(self) -> None:
        self.worker.start()
        for resource, listener in self.watches().items():
            self._stops.append(self.registry.subscribe(resource, listener))

    async def stop(self) -> None:
        while self._stops:
            self._stops.pop()()
        await self.worker.stop()


async def create_if_absent(registry: Registry, resource: Resource, obj: Object) -> None:
    try:
        await registry.create(resource, obj)
    except ApiError as refusal:
        if refusal.reason != "AlreadyExists":
            raise


async def update_status(registry: Registry, resource: Resource, obj: Object, status: Object) -> None:
    if status != obj.get("status"):
        await registry.update(resource, {**obj, "status": status}, "status")


async def delete_if_unchanged(registry: Registry, resource: Resource, obj: Object, **options: Any) -> None:
    """Delete exactly this object; when it is gone or was recreated, there is nothing to do."""
    try:
        await registry.delete(resource, ObjectKey.of(obj), uid=uid_of(obj), **options)
    except ApiError as refusal:
        if refusal.code not in {404, 409}:
            raise
