"""All clients, one task after the other, on the same servers in one run; the table that `make bench` prints."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.clients.measure import CONCURRENCY, NAMESPACE, OBJECTS, SIZE, Cost
from bench.rig.result import keep_result
from watchword.api.resources import NAMESPACES, SECRETS
from watchword.runtime.event_loop import run
from watchword.testing.builders import a_namespace, a_secret
from watchword.testing.credentials import ADMIN, ADMIN_GROUPS, ClusterCredentials
from watchword.testing.kube_apiserver_backend import KubeApiserverBackend, find_assets, open_kube_apiserver
from watchword.testing.process import ChildProcess, await_ready, free_port

SUBJECTS = {"watchword": "watchword", "official": "kubernetes", "asynchronous": "kubernetes_asyncio"}
ROUNDS = 2
EVENTS = 50_000
CACHED = 10_000
LIMIT = 900.0
OF_THE_CLIENT = "    CPU time of the client for each"


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


@dataclass(frozen=True)
class Line:
    """One line of what is printed: a figure of each client."""

    title: str
    unit: str
    figures: dict[str, float]


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print."""
    options = _options(arguments)
    print(f"{'':52}" + "".join(f"{title:>24}" for title in SUBJECTS.values()))
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="watchword-bench-") as folder:
        with open_kube_apiserver(find_assets(), _made(Path(folder) / "real")) as backend:
            run(_fill(backend))
            for task in REQUESTS:
                smaller = replace(task, count=max(CONCURRENCY, int(task.count * options.share)))
                lines += _print_row(smaller, backend.cluster.kubeconfig)
        with _replay(_made(Path(folder) / "replay")) as kubeconfig:
            for task in STREAMS:
                lines += _print_row(task, kubeconfig)
    keep_result(options.out, "clients", {"lines": [asdict(line) for line in lines]})


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of requests")
    parser.add_argument("--out", type=Path, help="a folder for a file of all figures")
    return parser.parse_args(arguments)


def _print_row(task: Task, kubeconfig: Path) -> list[Line]:
    """Run the task with every subject in turn, several rounds, and print the best of each."""
    costs: dict[str, list[Cost]] = {name: [] for name in SUBJECTS}
    for number in range(ROUNDS):
        for name in list(SUBJECTS)[:: -1 if number % 2 else 1]:  # no subject always comes first
            costs[name].append(_measure(name, task, kubeconfig))
    lines = _lines(task, costs)
    for line in lines:
        _print_line(line)
    return lines


def _lines(task: Task, costs: dict[str, list[Cost]]) -> list[Line]:
    if task.unit == "MB":
        return [Line(task.title, "MB", {name: min(one.megabytes for one in costs[name]) for name in SUBJECTS})]
    rates = {name: max(task.count / one.seconds for one in costs[name]) for name in SUBJECTS}
    spent = {name: min(one.cpu_seconds for one in costs[name]) * 1e6 / task.count for name in SUBJECTS}
    return [Line(task.title, "/s", rates), Line(OF_THE_CLIENT, "µs", spent)]


def _print_line(line: Line) -> None:
    ours = line.figures["watchword"]
    cells = [
        f"{figure:,.0f} {line.unit}" + ("" if name == "watchword" else f" ({figure / ours:.2f}x)")
        for name, figure in line.figures.items()
    ]
    print(f"{line.title:52}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


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
    main(sys.argv[1:])
