"""The contract between a reconciler and the controller that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.runtime.raw_objects import Delta, Facts


class Done(Struct, frozen=True):
    """No further work until the key is triggered again.

    A reconcile that has reported a refusal is repeated all the same, less and less often: its cause may be gone without
    an event that triggers the key.
    """


class RetryAfter(Struct, frozen=True):
    """Reconcile again after this delay; not a failure."""

    delay: timedelta


Outcome: TypeAlias = Done | RetryAfter

FIRST_RECHECK, LONGEST_RECHECK = timedelta(minutes=1), timedelta(hours=1)
"""When a reconcile that reported a refusal, and waits for nothing else, is repeated."""


class Terminal(Exception):
    """Retrying cannot help until a person or another object changes something."""


_refusals: ContextVar[list[str] | None] = ContextVar("refusals", default=None)


def note_refusal(reason: str) -> None:
    """Note that the present reconcile reports a refusal; `StatusWriter` and `EventRecorder` do so."""
    noted = _refusals.get()
    if noted is not None:
        noted.append(reason)


def collect_refusals() -> list[str]:
    """Return the list to which the refusals of the reconcile that begins now are added."""
    noted: list[str] = []
    _refusals.set(noted)
    return noted


class Reconciler(Protocol):
    """Brings the state in line with one object; level-triggered and idempotent.

    Any exception other than `Terminal` is retried with backoff.
    """

    async def reconcile(self, key: ObjectKey) -> Outcome: ...


class Reader(Protocol):
    """The cache: instant, possibly stale. Its results must not be modified."""

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        """Return the object, or None when the cache has not seen it."""
        ...

    def list(self, resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]: ...

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]: ...


KeyMapper: TypeAlias = Callable[[Object], Iterable[ObjectKey]]
"""Maps an object that changed to the keys of the root objects that it concerns."""


class Trigger(Struct, frozen=True):
    """Another kind whose changes trigger the controller, and how they map to its keys."""

    resource: Resource
    keys: KeyMapper
    connection_name: str = ""  # the name of its connection; empty: the main one
    facts: Facts | None = None  # a change that leaves them equal triggers nothing; None: every change counts


class TriggerSource:
    """Enqueues keys of controllers for reasons other than object changes; without effect until they run."""

    def __init__(self) -> None:
        self._enqueue_callbacks: list[Callable[[ObjectKey], None]] = []

    def connect(self, enqueue_key: Callable[[ObjectKey], None]) -> None:
        self._enqueue_callbacks.append(enqueue_key)

    def enqueue(self, key: ObjectKey) -> None:
        for enqueue_key in self._enqueue_callbacks:
            enqueue_key(key)

    def for_key(self, key: ObjectKey) -> TriggerSource:
        """Return a source that triggers this one key whenever any key of this source is triggered."""
        source = TriggerSource()
        self.connect(lambda _: source.enqueue(key))
        return source

    def enqueue_all(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self.enqueue(key)


class ControllerSpec(Struct, frozen=True):
    """One controller as data: what it reconciles, what triggers it, and its reconciler."""

    name: str
    root: Resource
    reconciler: Reconciler
    triggers: tuple[Trigger, ...] = ()
    workers: int = 8
    deadline: timedelta = timedelta(seconds=60)
    connection_name: str = ""  # the name of the root kind's connection; empty: the main one
    trigger_source: TriggerSource | None = None  # triggers it, too
    concerns: Callable[[Object], bool] = lambda _: True
    """Whether a new version of a root object may need work; False saves a reconcile that would do nothing."""
    facts: Facts | None = None
    """What is read of a root object: a new version that leaves it equal is not reconciled; None: every one is."""
    acts_on_deletion: bool = True  # False: nothing is left to do once a root object is gone


class Observer(Struct, frozen=True):
    """Looks at a kind for metrics and Events: called while this process leads, for every object and every change.

    It writes nothing and must not block. No key is queued: there is nothing to be retried.
    """

    resource: Resource
    observe: Callable[[Delta], None]
