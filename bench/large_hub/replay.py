"""Measures a hub in this process on replayed objects: processor time and memory, whatever else the machine does.

Run: python -m bench.large_hub.replay --clusters 3000 --addons 3. No API server runs; two clusters join an embedded hub
first, in a process of its own, and their objects are multiplied.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import orjson

from bench.large_hub.clones import cluster_name, copy_cluster, group_by_cluster, shared_uids
from bench.large_hub.figures import Figure, table
from bench.rig.processes import usage
from watchword.accounts.hub.definition import accounts_addon
from watchword.api.http import Request, Response
from watchword.api.names import IMAGE
from watchword.api.selectors import parse_label_selector
from watchword.api.time import rfc3339_micro
from watchword.apiserver.serving.requestinfo import read_request_info
from watchword.cli.main import COLLECTION_THRESHOLDS
from watchword.kube.client import Client
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run
from watchword.runtime.logs import configure_logging
from watchword.runtime.metrics import Metrics, ReconcileResult

REVISION = 1_000_000
END = {"metadata": {"resourceVersion": str(REVISION), "annotations": {"k8s.io/initial-events-end": "true"}}}
LEASES = "leases"
EVENTS_READ_AT_ONCE = 16  # about what one read of a connection returns
PAUSE = 0.01  # seconds between two looks at the hub
REQUEST = re.compile(rb'("request":"[^"]{200})([^"]+)')
STREAM = (("Content-Type", "application/json"),)


@dataclass
class ReplayServer:
    """Answers watches with the recorded objects, those of clusters multiplied; counts everything else."""

    recorded: dict[str, list[dict[str, Any]]]
    clusters: int
    renewals: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    requests: int = 0  # that are no watches
    spent: float = 0.0  # processor time for making events, which is not the hub's

    def __post_init__(self) -> None:
        for lease in self.recorded["leases.coordination.k8s.io"]:
            lease["spec"]["renewTime"] = rfc3339_micro(SystemClock().now())
        rows = {_key(kind, obj): orjson.dumps(obj) for kind, objects in self.recorded.items() for obj in objects}
        self.groups = group_by_cluster(rows)
        self.shared = shared_uids(self.groups)
        owned = {key for group in self.groups.values() for key in group}
        self.single = {key: value for key, value in rows.items() if key not in owned}

    async def answer(self, request: Request) -> Response:
        """Stream a kind; any other request finds nothing."""
        asked = read_request_info(request.method, request.path, request.query)
        if asked.verb != "watch":
            self.requests += 1
            return Response(404, STREAM, orjson.dumps({"kind": "Status", "code": 404, "reason": "NotFound"}))
        return Response(200, STREAM, stream=self._events(asked.resource, request))

    async def _events(self, plural: str, request: Request) -> AsyncIterator[bytes]:
        lines = self._timed(self._initial_events(plural, request.parameter("labelSelector")))
        while chunk := b"".join(islice(lines, EVENTS_READ_AT_ONCE)):
            yield chunk
        yield b'{"type":"BOOKMARK","object":' + orjson.dumps(END) + b"}\n"
        while True:
            renewal = await self.renewals.get() if plural == LEASES else await asyncio.Event().wait()
            yield b'{"type":"MODIFIED","object":' + bytes(renewal) + b"}\n"

    def _initial_events(self, plural: str, labels: str) -> Iterator[bytes]:
        selector = parse_label_selector(labels)
        for raw in self.objects(plural.encode()):
            if selector.matches(orjson.loads(raw)["metadata"].get("labels") or {}):
                yield b'{"type":"ADDED","object":' + raw + b"}\n"

    def _timed(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        while True:
            started = time.process_time()
            line = next(lines, None)
            self.spent += time.process_time() - started
            if line is None:
                return
            yield line

    def objects(self, plural: bytes) -> Iterator[bytes]:
        """Yield the objects of a kind."""
        prefix = plural + b"/"
        yield from (raw for key, raw in self.single.items() if key.startswith(prefix))
        names = sorted(self.groups)
        for number in range(self.clusters):
            name = names[number % len(names)]
            group = {key: raw for key, raw in self.groups[name].items() if key.startswith(prefix)}
            copy = cluster_name(number).encode()
            for raw in copy_cluster(group, name, copy, self.shared).values():
                yield _with_own_key(raw, copy)

    def renew(self, *, revision: int) -> None:
        """Let every cluster renew its lease."""
        lease = next(raw for key, raw in self.groups[b"c00000"].items() if key.startswith(LEASES.encode()))
        for number in range(self.clusters):
            name = cluster_name(number).encode()
            document = orjson.loads(next(iter(copy_cluster({b"": lease}, b"c00000", name, self.shared).values())))
            document["metadata"]["resourceVersion"] = str(revision + number)
            document["spec"]["renewTime"] = rfc3339_micro(SystemClock().now())
            self.renewals.put_nowait(orjson.dumps(document))


def _key(kind: str, obj: dict[str, Any]) -> bytes:
    metadata = obj["metadata"]
    return f"{kind.partition('.')[0]}/{metadata.get('namespace', '')}/{metadata['name']}".encode()


def _with_own_key(raw: bytes, cluster: bytes) -> bytes:
    """Return a certificate request with a key of its own: a hub that compresses must not find it in another one."""
    if b'"request":"' not in raw:
        return raw
    random = b64encode(b"".join(sha256(raw + cluster + bytes([number])).digest() for number in range(32)))
    return REQUEST.sub(lambda found: found[1] + random[: len(found[2])], raw)


def main() -> None:
    """Record, replay and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_hub.replay", description=__doc__)
    parser.add_argument("--clusters", type=int, default=3000)
    parser.add_argument("--addons", type=int, default=3, help="of each cluster")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recorded.json"
        command = [sys.executable, "-m", "bench.large_hub.recording", str(path), str(arguments.addons)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        recorded = orjson.loads(path.read_bytes())
    print(table(run(measure(recorded, arguments.clusters))))


async def measure(recorded: dict[str, list[dict[str, Any]]], clusters: int) -> list[Figure]:
    """Start a hub on the replayed fleet, wait until it is idle, and renew leases."""
    configure_logging(level="info")
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    server, metrics = ReplayServer(recorded, clusters), Metrics()
    options = HubOptions(elect=False, install=False, metrics=metrics, addons=(accounts_addon(image=IMAGE),))
    before, started = _memory(), time.process_time()
    work = run_hub(
        Client.from_handler(server.answer),
        options,
        clock=SystemClock(),
        random=Random(1),
        extensions=[hub_addon_controllers],
    )
    hub = asyncio.create_task(work)
    await _idle(metrics)
    spent, memory = time.process_time() - started - server.spent, _memory()
    reconciles, refused = _reconciles(metrics)
    renewal = await _renewal_cost(server, metrics)
    hub.cancel()
    await asyncio.gather(hub, return_exceptions=True)
    renewed = clusters / 52.5  # in a second: our agent renews every 45 to 60 seconds
    return [
        Figure(f"start with {clusters} clusters, processor time", spent, "s", goal=10.0 * max(1.0, clusters / 3000)),
        Figure("the same for a cluster", spent / clusters * 1000, "ms", goal=3.0),
        Figure("memory before", before, "MiB"),
        Figure("memory with the fleet", memory, "MiB", goal=150.0 * max(1.0, clusters / 3000)),
        Figure("reconciles of that start for a cluster", reconciles / clusters, ""),
        Figure("of them ended by a refused write", refused / clusters, ""),
        Figure("requests other than watches", server.requests, ""),
        Figure("renewal of a lease, processor time", renewal * 1e6, "µs"),
        Figure(
            "all renewals of the fleet", renewal * renewed * 100, "% of a core", goal=2.0 * max(1.0, clusters / 3000)
        ),
    ]


def _reconciles(metrics: Metrics) -> tuple[float, float]:
    """Return how many reconciles there were so far, and how many of them a refused write ended."""
    family = next(family for family in metrics.registry.families if family.name == "watchword_reconcile")
    ended = [(labels["result"], value) for _, labels, value in family.samples()]
    return sum(value for _, value in ended), sum(value for result, value in ended if result == ReconcileResult.CONFLICT)


async def _renewal_cost(server: ReplayServer, metrics: Metrics) -> float:
    """Return the processor time of one renewal: every cluster renews, and all is reconciled before the next round."""
    rounds, spent = 3, 0.0
    for number in range(rounds):
        server.renew(revision=REVISION + 1 + number * server.clusters)
        started = time.process_time()
        while not server.renewals.empty():  # noqa: ASYNC110 - the hub reads them at its own pace
            await asyncio.sleep(PAUSE)
        await _idle(metrics, pause=PAUSE)
        spent += (time.process_time() - started) * (number > 0)  # the first renewal that is seen is never skipped
    return spent / (rounds - 1) / server.clusters


async def _idle(metrics: Metrics, *, pause: float = 0.5) -> None:
    """Wait until the controllers run and no key is left."""
    queued = next(family for family in metrics.registry.families if family.name == "watchword_queue_keys")
    while True:
        await asyncio.sleep(pause)
        busy = sum(value for _, labels, value in queued.samples() if labels["state"] in ("ready", "in_flight"))
        if metrics.registry.get_sample_value("watchword_leading") and not busy:
            return


def _memory() -> float:
    return usage({"me": os.getpid()})["me"].resident_mib


if __name__ == "__main__":
    main()
