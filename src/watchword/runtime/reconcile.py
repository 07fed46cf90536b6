"""What a reconciler promises to the controller that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias

from watchword.api.meta import Object, ObjectKey, Resource


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing left to do until something wakes the key again."""


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
class Wake:
    """Another kind whose changes wake the controller, and how they map to its keys."""

    resource: Resource
    keys: KeyMapper
    origin: str = ""  # the name of the connection it lives on; empty: the main one


class Bell:
    """Wakes keys of controllers for reasons that could not be named as data beforehand; unheard until they run."""

    def __init__(self) -> None:
        self._hearers: list[Callable[[ObjectKey], None]] = []

    def connect(self, hear: Callable[[ObjectKey], None]) -> None:
        """Tell who is woken, too."""
        self._hearers.append(hear)

    def ring(self, key: ObjectKey) -> None:
        """Wake a key."""
        for hear in self._hearers:
            hear(key)

    def ring_all(self, keys: Iterable[ObjectKey]) -> None:
        """Wake several keys."""
        for key in keys:
            self.ring(key)


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """One controller as data: what it reconciles, what wakes it, who does the work."""

    name: str
    root: Resource
    reconciler: Reconciler
    wakes: tuple[Wake, ...] = ()
    workers: int = 8
    deadline: timedelta = timedelta(seconds=60)
    origin: str = ""  # the name of the connection that the root kind lives on; empty: the main one
    bell: Bell | None = None  # wakes it, too
