"""Runs a command of `watchword` and ends it, as kill -9 does, at the Nth change that it makes to files."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from watchword.cli.main import run

CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.rmtree"})


def kill_at(step: int, folder: str) -> None:
    """Count the changes below a folder; an audit hook cannot be removed, so nothing escapes it."""
    left = step

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (is_write or event in CHANGES) or not str(arguments[0]).startswith(folder):
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    kill_at(int(sys.argv[1]), sys.argv[2])
    sys.exit(run(sys.argv[3:]))
