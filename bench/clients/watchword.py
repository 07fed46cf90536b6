"""Our client as a subject."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from bench.clients.measure import CONCURRENCY, MANAGER, NAMESPACE, Cost, a_change, scales, stopwatch
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.kube.watch_stream import WatchQuery, watch_events
from watchword.runtime.cache import Cache
from watchword.runtime.event_loop import run


class Watchword:
    """Verbs over our own transport, objects as mappings, a cache of raw bytes."""

    def requests(self, kubeconfig: Path, verb: str, names: list[str]) -> Cost:
        """Send requests from one task per slot."""
        return run(_requests(kubeconfig, verb, names))

    def events(self, kubeconfig: Path, count: int) -> Cost:
        """Decode every object of the watch in full."""
        return run(_events(kubeconfig, count))

    def cache(self, kubeconfig: Path) -> Cost:
        """Fill the cache that controllers read."""
        return run(_cache(kubeconfig))


SUBJECT = Watchword()


async def _requests(kubeconfig: Path, verb: str, names: list[str]) -> Cost:
    client = connect(kubeconfig)
    send = _sender(client, verb)
    await send(names[0])
    waiting = iter(names)

    async def work() -> None:
        for name in waiting:
            await send(name)

    with stopwatch(len(names)) as cost:
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    await client.close()
    return cost


def _sender(client: Client, verb: str) -> Callable[[str], Awaitable[Object]]:
    def get(name: str) -> Awaitable[Object]:
        return client.get(SECRETS, ObjectKey(NAMESPACE, name))

    def patch(name: str) -> Awaitable[Object]:
        return client.patch(SECRETS, ObjectKey(NAMESPACE, name), {"metadata": {"annotations": {"bench": a_change()}}})

    def apply(name: str) -> Awaitable[Object]:
        manifest = SECRETS.manifest(ObjectKey(NAMESPACE, name), metadata={"labels": {"bench": a_change()}})
        return client.apply(SECRETS, manifest, manager=MANAGER, force=True)

    return {"get": get, "patch": patch, "apply": apply}[verb]


async def _events(kubeconfig: Path, count: int) -> Cost:
    client = connect(kubeconfig)
    seen = 0
    with stopwatch(count) as cost:
        async with aclosing(watch_events(client, SECRETS, WatchQuery(resource_version="1"))) as events:
            async for event in events:
                seen += bool(event.decode()["metadata"]["name"])
                if seen == count:
                    break
    await client.close()
    return cost


async def _cache(kubeconfig: Path) -> Cost:
    client = connect(kubeconfig)
    await client.list(SECRETS, namespace="warm-up")
    with scales() as cost:
        cache = Cache.of(client)
        informer = cache.informer(SECRETS)
        running = asyncio.create_task(cache.run())
        await informer.sync()
    cost.operations = len(cache.list(SECRETS))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()
    return cost
