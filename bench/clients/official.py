"""The official Python client as a subject: synchronous, so one thread for each request in flight."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubernetes import client, config, watch

from bench.clients.measure import CONCURRENCY, MANAGER, NAMESPACE, Cost, a_change, scales, stopwatch

APPLY = "application/apply-patch+yaml"
PAGE = 500


class Official:
    """Typed models throughout."""

    def requests(self, kubeconfig: Path, verb: str, names: list[str]) -> Cost:
        """Send requests from a pool of threads."""
        send = _sender(_api(kubeconfig), verb)
        send(names[0])
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(send, names[:CONCURRENCY]))  # every thread connects before the clock starts
            with stopwatch(len(names)) as cost:
                list(pool.map(send, names))
        return cost

    def events(self, kubeconfig: Path, count: int) -> Cost:
        """Decode every event into a model."""
        api, seen = _api(kubeconfig), 0
        watcher = watch.Watch()
        with stopwatch(count) as cost:
            for event in watcher.stream(api.list_secret_for_all_namespaces, resource_version="1", timeout_seconds=600):
                seen += bool(event["object"].metadata.name)
                if seen == count:
                    break
        return cost

    def cache(self, kubeconfig: Path) -> Cost:
        """Keep the models by name."""
        api = _api(kubeconfig)
        api.list_namespaced_secret("warm-up")
        with scales() as cost:
            held: dict[str, Any] = {}
            token = ""
            while True:
                page = api.list_secret_for_all_namespaces(limit=PAGE, _continue=token or None)
                held.update({item.metadata.name: item for item in page.items})
                token = page.metadata._continue  # noqa: SLF001 - the client's own spelling of a Python keyword
                if not token:
                    break
            del page
            cost.operations = len(held)
        return cost


SUBJECT = Official()


def _api(kubeconfig: Path) -> Any:
    config.load_kube_config(str(kubeconfig))
    settings = client.Configuration.get_default_copy()
    settings.connection_pool_maxsize = CONCURRENCY
    return client.CoreV1Api(client.ApiClient(settings))


def _sender(api: Any, verb: str) -> Callable[[str], Any]:
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
