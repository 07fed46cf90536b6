"""Lets a process end with the one that started it, however that one ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import MutableMapping

LIFELINE = "WATCHWORD_LIFELINE"
"""Names the descriptor of a pipe that nobody writes to: when it closes, the parent is gone."""


def exit_with_parent(environment: MutableMapping[str, str]) -> None:
    """End this process at once when its parent has gone, even by `kill -9`; children do not inherit the promise."""
    descriptor = int(environment.pop(LIFELINE))
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_wait, args=(descriptor,), name="lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
