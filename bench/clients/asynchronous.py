"""The closest asynchronous client as a subject."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kubernetes_asyncio import client, config, watch

from bench.clients.measure import CONCURRENCY, MANAGER, NAMESPACE, Cost, a_change, scales, stopwatch
from watchword.runtime.event_loop import run

APPLY = "application/apply-patch+yaml"
PAGE = 500


class Asynchronous:
    """Typed models over aiohttp, on the same event loop as ours."""

    def requests(self, kubeconfig: Path, verb: str, names: list[str]) -> Cost:
        """Send requests from one task per slot."""
        return run(_requests(kubeconfig, verb, names))

    def events(self, kubeconfig: Path, count: int) -> Cost:
        """Decode every event into a model."""
        return run(_events(kubeconfig, count))

    def cache(self, kubeconfig: Path) -> Cost:
        """Keep the models by name."""
        return run(_cache(kubeconfig))


SUBJECT = Asynchronous()


async def _requests(kubeconfig: Path, verb: str, names: list[str]) -> Cost:
    await config.load_kube_config(str(kubeconfig))
    async with client.ApiClient() as connection:
        send = _sender(client.CoreV1Api(connection), verb)
        await send(names[0])
        waiting = iter(names)

        async def work() -> None:
            for name in waiting:
                await send(name)

        with stopwatch(len(names)) as cost:
            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return cost


def _sender(api: Any, verb: str) -> Callable[[str], Awaitable[Any]]:
    def get(name: str) -> Any:
        return api.read_namespaced_secret(name, NAMESPACE)

    def patch(name: str) -> Any:
        return api.patch_namespaced_secret(name, NAMESPACE, {"metadata": {"annotations": {"bench": a_change()}}})

    def apply(name: str) -> Any:
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"bench": a_change()}}}
        return api.patch_namespaced_secret(
            name, NAMESPACE, manifest, field_manager=MANAGER, force=True, _content_type=APPLY
        )

    return {"get": get, "patch": patch, "apply": apply}[verb]


async def _events(kubeconfig: Path, count: int) -> Cost:
    await config.load_kube_config(str(kubeconfig))
    async with client.ApiClient() as connection:
        api, seen = client.CoreV1Api(connection), 0
        with stopwatch(count) as cost:
            async with watch.Watch() as watcher:
                stream = watcher.stream(api.list_secret_for_all_namespaces, resource_version="1", timeout_seconds=600)
                async for event in stream:
                    seen += bool(event["object"].metadata.name)
                    if seen == count:
                        break
    return cost


async def _cache(kubeconfig: Path) -> Cost:
    await config.load_kube_config(str(kubeconfig))
    async with client.ApiClient() as connection:
        api = client.CoreV1Api(connection)
        await api.list_namespaced_secret("warm-up")
        with scales() as cost:
            held: dict[str, Any] = {}
            token = ""
            while True:
                page = await api.list_secret_for_all_namespaces(limit=PAGE, _continue=token or None)
                held.update({item.metadata.name: item for item in page.items})
                token = page.metadata._continue  # noqa: SLF001 - the client's own spelling of a Python keyword
                if not token:
                    break
            del page
            cost.operations = len(held)
    return cost
