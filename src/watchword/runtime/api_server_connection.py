"""One API server as the controllers of a process see it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from msgspec import Struct, field

from watchword.kube.client import Client
from watchword.kube.watch import WatchOptions
from watchword.runtime.cache import Cache
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import Informer
from watchword.runtime.metrics import Metrics
from watchword.runtime.status import StatusWriter
from watchword.runtime.write_transports import ControllerTransport, Fence

HUB = "hub"
"""The name of an agent's connection to its hub; the main one is that to the agent's own cluster."""


class ApiServerConnection(Struct, frozen=True):
    """What a reconciler needs of an API server: read from `cache`, write through `client` and `status`."""

    name: str
    client: Client  # refuses writes without leadership; its own writes are visible in the cache immediately
    cache: Cache
    status: StatusWriter
    events: EventRecorder
    follow: WatchOptions = field(default_factory=WatchOptions)  # for watches outside the cache


def leader_only_client(client: Client, fence: Fence, cache: Cache, metrics: Metrics) -> Client:
    """Return the client that controllers use, whose writes obey the rules of `ControllerTransport`."""
    return client.over(ControllerTransport(client.transport, cache.observe_write, fence, metrics))


def check_cache_readiness(cache: Cache, *, stale_after: timedelta) -> str:
    """Return which informers are not synced or silent for too long; empty when all are healthy."""
    problems = []
    for informer in cache.informers():
        age = informer.age()
        if not informer.synced:
            problems.append(f"{informer.resource.group_resource} not synced")
        elif age is not None and age > stale_after.total_seconds():
            problems.append(f"{informer.resource.group_resource} silent for {int(age)} s")
    return ", ".join(problems)


def register_cache_metrics(connection: ApiServerConnection, metrics: Metrics) -> None:
    for resource in {informer.resource for informer in connection.cache.informers()}:
        informers = connection.cache.informers(resource)
        label = f"{connection.name}/{resource.group_resource}" if connection.name else resource.group_resource
        metrics.watch_informer(label, age=_oldest(informers), objects=partial(_total, informers))


def _oldest(informers: list[Informer]) -> Callable[[], float]:
    loop = asyncio.get_running_loop()  # the metrics endpoint may run outside the loop

    def silence(informer: Informer) -> float:
        if informer.last_contact is None:
            return 0.0 if informer.synced else float("inf")  # idle, or never received anything
        return loop.time() - informer.last_contact

    return lambda: max(map(silence, informers))


def _total(informers: list[Informer]) -> int:
    return sum(len(informer.store) for informer in informers)
