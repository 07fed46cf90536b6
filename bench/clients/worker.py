"""One task of one subject in a process of its own: python -m bench.clients.worker SUBJECT TASK KUBECONFIG COUNT."""

from __future__ import annotations

import dataclasses
import json
import sys
from importlib import import_module
from pathlib import Path

from bench.clients.measure import OBJECTS, Cost, Subject


def main() -> None:
    """Run and print the cost as JSON."""
    name, task, kubeconfig, count = sys.argv[1:]
    subject: Subject = import_module(f"bench.clients.{name}").SUBJECT
    print(json.dumps(dataclasses.asdict(measure(subject, task, Path(kubeconfig), int(count)))))


def measure(subject: Subject, task: str, kubeconfig: Path, count: int) -> Cost:
    """Do one task."""
    if task == "events":
        return subject.events(kubeconfig, count)
    if task == "cache":
        return subject.cache(kubeconfig)
    return subject.requests(kubeconfig, task, [f"secret-{number % OBJECTS}" for number in range(count)])


if __name__ == "__main__":
    main()
