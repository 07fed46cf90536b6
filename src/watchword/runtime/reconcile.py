"""What a reconciler promises to the controller that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias

from watchword.api.meta import Object, ObjectKey, Resource


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing left to do until something triggers the key again."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Look again after this long; not a failure, so it does not count as one."""

    delay: timedelta


Outcome: TypeAlias = Done | RetryAfter


class Terminal(Exception):
    """Retrying cannot help: a person or another object has to change first."""


class Reconciler(Protocol):
    """Makes the world agree with one object; level-triggered and idempotent.

    Any exception other than `Terminal` means: try again, with backoff.
    """

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Bring the object of that key, present or gone, to its desired state."""
        ...


class Reader(Protocol):
    """The cache: instant, possibly stale. What it returns must not be changed."""

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        """Return the object, or None when the cache has not seen it."""
        ...

    def list(self, resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        """Return the objects of a kind, in key order."""
        ...

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]:
        """Return the objects whose index function gave that value."""
        ...


KeyMapper: TypeAlias = Callable[[Object], Iterable[ObjectKey]]
"""From an object that changed to the keys of the root objects it concerns."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Another kind whose changes wake the controller, and how they map to its keys."""

    resource: Resource
    keys: KeyMapper
    connection_name: str = ""  # the name of the connection it lives on; empty: the main one


class TriggerSource:
    """Wakes keys of controllers for reasons that could not be named as data beforehand; unheard until they run."""

    def __init__(self) -> None:
        self._enqueue_callbacks: list[Callable[[ObjectKey], None]] = []

    def connect(self, enqueue_key: Callable[[ObjectKey], None]) -> None:
        """Tell who is woken, too."""
        self._enqueue_callbacks.append(enqueue_key)

    def enqueue(self, key: ObjectKey) -> None:
        """Trigger a key."""
        for enqueue_key in self._enqueue_callbacks:
            enqueue_key(key)

    def for_key(self, key: ObjectKey) -> TriggerSource:
        """Return a source that triggers this one key whenever any key of this source is triggered."""
        source = TriggerSource()
        self.connect(lambda _: source.enqueue(key))
        return source

    def enqueue_all(self, keys: Iterable[ObjectKey]) -> None:
        """Trigger several keys."""
        for key in keys:
            self.enqueue(key)


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """One controller as data: what it reconciles, what triggers it, who does the work."""

    name: str
    root: Resource
    reconciler: Reconciler
    triggers: tuple[Trigger, ...] = ()
    workers: int = 8
    deadline: timedelta = timedelta(seconds=60)
    connection_name: str = ""  # the name of the connection that the root kind lives on; empty: the main one
    trigger_source: TriggerSource | None = None  # triggers it, too
