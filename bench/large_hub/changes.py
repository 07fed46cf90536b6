"""Tells the simulated agents of a cluster that something about their cluster has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from watchword.api.meta import Object
from watchword.api.names import Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from watchword.runtime.cache import Cache
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import Delta


class ClusterChanges:
    """Sets the events of a cluster's subscribers whenever an object of that cluster changes."""

    def __init__(self, cache: Cache) -> None:
        self._events: dict[str, list[asyncio.Event]] = {}
        cache.informer(CERTIFICATE_SIGNING_REQUESTS, WatchScope(labels=Label.CLUSTER_NAME))
        for resource in (MANAGED_CLUSTERS, MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS, CERTIFICATE_SIGNING_REQUESTS):
            cache.add_handler(resource, self._notify)

    @contextmanager
    def subscribe(self, cluster: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set by every change of the cluster; the caller clears it."""
        event = asyncio.Event()
        self._events.setdefault(cluster, []).append(event)
        try:
            yield event
        finally:
            self._events[cluster].remove(event)

    def _notify(self, delta: Delta) -> None:
        name = delta.key.namespace or delta.key.name
        if delta.resource is CERTIFICATE_SIGNING_REQUESTS:
            name = _label(delta.new or delta.old or {})
        for event in self._events.get(name, ()):
            event.set()


def _label(request: Object) -> str:
    return str((request.get("metadata", {}).get("labels") or {}).get(Label.CLUSTER_NAME, ""))
