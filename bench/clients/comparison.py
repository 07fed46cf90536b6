"""All clients, one task after the other, on the same servers in one run; the table that `make bench` prints."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.clients.measure import CONCURRENCY, NAMESPACE, OBJECTS, SIZE, Cost
from watchword.api.resources import NAMESPACES, SECRETS
from watchword.runtime.event_loop import run
from watchword.testing.assets import find_assets
from watchword.testing.builders import a_namespace, a_secret
from watchword.testing.credentials import ADMIN, ADMIN_GROUPS, ClusterCredentials
from watchword.testing.kube_apiserver_backend import KubeApiserverBackend, open_kube_apiserver
from watchword.testing.process import ChildProcess, await_ready, free_port

SUBJECTS = {"watchword": "watchword", "official": "kubernetes", "asynchronous": "kubernetes_asyncio"}
ROUNDS = 2
EVENTS = 50_000
CACHED = 10_000
LIMIT = 900.0


@dataclass(frozen=True)
class Task:
    """One row of the table."""

    name: str
    title: str
    count: int
    unit: str = "/s"


REQUESTS = (
    Task("get", f"GET, {CONCURRENCY} at a time", 2_000),
    Task("patch", f"PATCH, {CONCURRENCY} at a time", 1_000),
    Task("apply", f"server-side apply, {CONCURRENCY} at a time", 1_000),
)
STREAMS = (
    Task("events", f"watch events decoded, {EVENTS:,} Secrets of 2 KB", EVENTS),
    Task("cache", f"memory of {CACHED:,} cached Secrets of 2 KB", CACHED, "MB"),
)


def main() -> None:
    """Measure and print."""
    print(f"{'':52}" + "".join(f"{title:>24}" for title in SUBJECTS.values()))
    with tempfile.TemporaryDirectory(prefix="watchword-bench-") as folder:
        with open_kube_apiserver(find_assets(), _made(Path(folder) / "real")) as backend:
            run(_fill(backend))
            for task in REQUESTS:
                _print_row(task, backend.cluster.kubeconfig)
        with _replay(_made(Path(folder) / "replay")) as kubeconfig:
            for task in STREAMS:
                _print_row(task, kubeconfig)


def _print_row(task: Task, kubeconfig: Path) -> None:
    """Run the task with every subject in turn, several rounds, and print the best of each."""
    costs: dict[str, list[Cost]] = {name: [] for name in SUBJECTS}
    for number in range(ROUNDS):
        for name in list(SUBJECTS)[:: -1 if number % 2 else 1]:  # nobody always comes first
            costs[name].append(_measure(name, task, kubeconfig))
    if task.unit == "MB":
        _print_line(task.title, "MB", {name: min(one.megabytes for one in costs[name]) for name in SUBJECTS})
        return
    _print_line(task.title, "/s", {name: max(task.count / one.seconds for one in costs[name]) for name in SUBJECTS})
    spent = {name: min(one.cpu_seconds for one in costs[name]) * 1e6 / task.count for name in SUBJECTS}
    _print_line("    CPU time of the client for each", "µs", spent)


def _print_line(title: str, unit: str, figures: dict[str, float]) -> None:
    ours = figures["watchword"]
    cells = [
        f"{figure:,.0f} {unit}" + ("" if name == "watchword" else f" ({figure / ours:.2f}x)")
        for name, figure in figures.items()
    ]
    print(f"{title:52}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def _measure(subject: str, task: Task, kubeconfig: Path) -> Cost:
    command = [sys.executable, "-m", "bench.clients.worker", subject, task.name, str(kubeconfig), str(task.count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT)
    cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
    if cost.operations != task.count:
        raise SystemExit(f"{subject} did {cost.operations} of {task.name} instead of {task.count}")
    return cost


async def _fill(backend: KubeApiserverBackend) -> None:
    client = backend.connect(ADMIN, ADMIN_GROUPS)
    await client.create(NAMESPACES, a_namespace(NAMESPACE))
    data = {"token": "x" * (SIZE * 3 // 4)}
    secrets = [a_secret(f"secret-{number}", namespace=NAMESPACE, data=data) for number in range(OBJECTS)]
    await asyncio.gather(*(client.create(SECRETS, secret) for secret in secrets))
    await client.close()


@contextmanager
def _replay(folder: Path) -> Iterator[Path]:
    credentials = ClusterCredentials.make(folder)
    port = free_port()
    server = f"https://127.0.0.1:{port}"
    command = [sys.executable, "-m", "bench.clients.replay", str(folder), str(port), str(EVENTS), str(CACHED)]
    process = ChildProcess(command, folder / "replay.log")
    try:
        await_ready(server, credentials.trust, process)
        yield credentials.kubeconfig(server, ADMIN, ADMIN_GROUPS)
    finally:
        process.stop()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
