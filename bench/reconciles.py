"""Prints how many empty reconciles the runtime does in a second, and what ten thousand cached Secrets weigh.

Run: python -m bench.reconciles
"""

from __future__ import annotations

import asyncio
import base64
import gc
import random
import time
import tracemalloc

import orjson

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import SECRETS
from watchword.kube.watch import Snapshot
from watchword.runtime.controller import Controller
from watchword.runtime.event_loop import run
from watchword.runtime.informer import Informer, WatchScope
from watchword.runtime.logs import configure_logging
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome

RECONCILES = 50_000
SECRETS_CACHED = 10_000
SECRET_SIZE = 2_048


class Nothing:
    """Does nothing, as fast as it can, and says when the last key has been."""

    def __init__(self, expected: int) -> None:
        self._left = expected
        self.finished = asyncio.Event()

    async def reconcile(self, key: ObjectKey) -> Outcome:  # noqa: ARG002 - the contract
        """Count down."""
        self._left -= 1
        if not self._left:
            self.finished.set()
        return Done()


async def reconciles_per_second(count: int = RECONCILES) -> tuple[float, float]:
    """Wake distinct keys and wait until each was reconciled once; by the wall clock and by CPU time."""
    reconciler = Nothing(count)
    spec = ControllerSpec("bench", SECRETS, reconciler)
    controller = Controller(spec, metrics=Metrics(), random=random.Random(1))
    for number in range(count):
        controller.queue.add(ObjectKey(f"ns-{number % 100}", f"s-{number}"))
    started, used = time.perf_counter(), time.process_time()
    working = asyncio.create_task(controller.run())
    await reconciler.finished.wait()
    seconds, used = time.perf_counter() - started, time.process_time() - used
    controller.queue.close()
    await working
    return count / seconds, count / used


def a_secret(number: int, source: random.Random) -> bytes:
    """Return a Secret as a server sends it, of the usual size, with managed fields on top."""
    metadata: Object = {
        "name": f"secret-{number:05}",
        "namespace": f"ns-{number % 100}",
        "uid": f"{source.getrandbits(128):032x}",
        "resourceVersion": str(number + 1),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": f"app-{number % 20}"},
    }
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {"token": ""},
        "type": "Opaque",
    }
    room = SECRET_SIZE - len(orjson.dumps(secret))
    secret["data"] = {"token": base64.b64encode(source.randbytes(room * 3 // 4)).decode()}
    metadata["managedFields"] = [
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:token": {}}, "f:type": {}}}
    ]
    return orjson.dumps(secret)


async def megabytes_of_secrets(count: int = SECRETS_CACHED) -> tuple[float, float]:
    """Return the memory that a cache of Secrets takes, and the seconds that the informer needs to handle them."""
    source = random.Random(1)
    items = [a_secret(number, source) for number in range(count)]
    informer = Informer(SECRETS, WatchScope())
    gc.collect()
    tracemalloc.start()
    informer.handle_update(Snapshot(items, str(count)))
    del items
    gc.collect()
    memory = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    items = [a_secret(number, source) for number in range(count)]
    started = time.perf_counter()
    Informer(SECRETS, WatchScope()).handle_update(Snapshot(items, str(count)))
    return memory, time.perf_counter() - started


async def main() -> None:
    """Measure and print."""
    configure_logging(level="info")
    rate, cpu_rate = await reconciles_per_second()
    print(f"empty reconciles        {rate:>10,.0f} /s     (goal 10,000); {cpu_rate:,.0f} per second of CPU")
    memory, seconds = await megabytes_of_secrets()
    print(f"10,000 Secrets of 2 KB  {memory:>10.1f} MB     (goal below 25), taken in within {seconds:.2f} s")


if __name__ == "__main__":
    run(main())
