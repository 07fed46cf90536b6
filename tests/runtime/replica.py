"""A program for tests: competes for a lease and, while it leads, writes as fast as it may and prints what it wrote.

Usage: replica.py KUBECONFIG NAMESPACE NAME
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from random import Random

from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.kube.connect import connect
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run, stop_on_signals
from watchword.runtime.informer import WatchScope
from watchword.runtime.logs import configure_logging
from watchword.runtime.manager import Manager, ManagerOptions


def tell(**facts: float | str) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def write_for_ever(hub: ApiServerConnection, namespace: str, name: str) -> None:
    while True:
        obj = CONFIG_MAPS.manifest(ObjectKey(namespace, "written-by-the-leader"), data={"by": name})
        stored = await hub.client.apply(CONFIG_MAPS, obj, manager=name, force=True)
        tell(wrote=int(stored["metadata"]["resourceVersion"]))
        await asyncio.sleep(0.05)


async def main(kubeconfig: str, namespace: str, name: str) -> None:
    configure_logging()
    options = ManagerOptions("watchword.io/test", name, lease=ObjectKey(namespace, "leader"))
    manager = Manager(options, clock=SystemClock(), random=Random(name))
    hub = manager.connect(connect(Path(kubeconfig)))
    hub.cache.informer(CONFIG_MAPS, WatchScope(namespace=namespace)).add_handler(lambda _: tell(standing="by"))
    manager.add_job("writer", lambda: write_for_ever(hub, namespace, name))
    stop = asyncio.Event()
    with stop_on_signals(stop):
        await manager.run(stop)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
