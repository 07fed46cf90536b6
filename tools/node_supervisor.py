"""The first process of a node's PID namespace: starts what a node runs, and starts again what ends.

A process with a file of its name in the folder `held` is not started until the file is removed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

INTERVAL = 0.1


def main() -> None:
    """Supervise the processes of `processes.json` in the named folder until the namespace ends."""
    folder = Path(sys.argv[1])
    running: dict[int, str] = {}
    while True:
        commands: dict[str, list[str]] = json.loads((folder / "processes.json").read_text())
        waiting = set(commands) - set(running.values())
        for name in sorted(waiting):
            if not (folder / "held" / name).exists():
                running[start(commands[name], folder, name)] = name
        ended = collect()
        for pid in ended:
            running.pop(pid, None)
        time.sleep(INTERVAL)


def start(command: list[str], folder: Path, name: str) -> int:
    """Start one process in a session of its own and write down its id as this namespace counts."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        log = os.open(folder / "log" / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        try:
            os.execvp(command[0], command)  # noqa: S606 (no shell is wanted)
        finally:
            os._exit(127)
    (folder / "pids" / name).write_text(str(pid))
    return pid


def collect() -> list[int]:
    """Return the processes that have ended, also those that this process inherited."""
    ended: list[int] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append(pid)


if __name__ == "__main__":
    main()
