"""Hands each committed change to the watchers it may concern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from watchword.apiserver.store.model import Store, StoreEvent


class EventReceiver(Protocol):
    """A receiver of the changes of one object, of one namespace, or of all."""

    namespace: str
    path: str  # of the only object that it selects; empty: several

    def receive(self, event: StoreEvent) -> None:
        """Receive one change; must neither wait nor raise."""
        ...


class WatchBroadcaster:
    """Keeps watchers by bucket and by what they select, so that a change is delivered only to those that select it.

    Thousands of agents watch one object each: a change of one must not cost a comparison for every other.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[str, dict[str, dict[int, EventReceiver]]] = {}
        self._stops: dict[str, Callable[[], None]] = {}

    def add(self, bucket: str, receiver: EventReceiver) -> None:
        """Deliver the bucket's changes to the receiver from now on."""
        if bucket not in self._watched:
            self._watched[bucket] = {}
            self._stops[bucket] = self._store.subscribe(bucket, self._deliver)
        self._watched[bucket].setdefault(_selection(receiver), {})[id(receiver)] = receiver

    def remove(self, bucket: str, receiver: EventReceiver) -> None:
        """Deliver no more; removing twice is harmless."""
        selections, selection = self._watched.get(bucket, {}), _selection(receiver)
        receivers = selections.get(selection, {})
        receivers.pop(id(receiver), None)
        if not receivers:
            selections.pop(selection, None)

    def count(self) -> int:
        """Return how many watchers there are."""
        return sum(len(receivers) for selections in self._watched.values() for receivers in selections.values())

    def _deliver(self, event: StoreEvent) -> None:
        selections, path = self._watched[event.record.bucket], event.record.path
        namespace = path.rpartition("/")[0]
        for selection in ("", namespace, f"={path}") if namespace else ("", f"={path}"):
            for receiver in tuple(selections.get(selection, {}).values()):
                receiver.receive(event)


def _selection(receiver: EventReceiver) -> str:
    """Return under which key a receiver is kept; no namespace begins with an equals sign."""
    return f"={receiver.path}" if receiver.path else receiver.namespace
