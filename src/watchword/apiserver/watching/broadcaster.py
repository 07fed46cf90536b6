"""Hands each committed change to the watchers it may concern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from watchword.apiserver.store.model import Store, StoreEvent


class EventReceiver(Protocol):
    """A receiver of the changes of one namespace, or of all."""

    namespace: str

    def receive(self, event: StoreEvent) -> None:
        """Receive one change; must neither wait nor raise."""
        ...


class WatchBroadcaster:
    """Keeps watchers by bucket and namespace, so that a change is delivered only to those that select it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[str, dict[str, dict[int, EventReceiver]]] = {}
        self._stops: dict[str, Callable[[], None]] = {}

    def add(self, bucket: str, receiver: EventReceiver) -> None:
        """Deliver the bucket's changes to the receiver from now on."""
        if bucket not in self._watched:
            self._watched[bucket] = {}
            self._stops[bucket] = self._store.subscribe(bucket, self._deliver)
        self._watched[bucket].setdefault(receiver.namespace, {})[id(receiver)] = receiver

    def remove(self, bucket: str, receiver: EventReceiver) -> None:
        """Deliver no more; removing twice is harmless."""
        spaces = self._watched.get(bucket, {})
        receivers = spaces.get(receiver.namespace, {})
        receivers.pop(id(receiver), None)
        if not receivers:
            spaces.pop(receiver.namespace, None)

    def count(self) -> int:
        """Return how many watchers there are."""
        return sum(len(receivers) for spaces in self._watched.values() for receivers in spaces.values())

    def _deliver(self, event: StoreEvent) -> None:
        spaces = self._watched[event.record.bucket]
        namespace = event.record.key.namespace
        for space in ("", namespace) if namespace else ("",):
            for receiver in tuple(spaces.get(space, {}).values()):
                receiver.receive(event)
