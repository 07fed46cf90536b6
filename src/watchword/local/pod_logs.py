"""Gives each pod of a fleet in one process a log of its own, beside the log of the whole."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from msgspec import Struct

LARGEST_LOG = 8 * 1024 * 1024
_pod_log: ContextVar[Path | None] = ContextVar("pod_log", default=None)


def log_to(path: Path) -> None:
    """Send what this task and those that it starts log to a file, too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _pod_log.set(path)


class PodLogStream(Struct, frozen=True):
    """A stream that writes each line to the log of the whole, and to that of the pod whose task logs it."""

    whole: TextIO

    def write(self, text: str) -> int:
        """Write a line; a pod's log that cannot be written never stops anything."""
        path = _pod_log.get()
        if path is not None:
            with suppress(OSError):
                _append(path, text)
        return self.whole.write(text)

    def flush(self) -> None:
        """Send what was written to the log of the whole."""
        self.whole.flush()

    def isatty(self) -> bool:
        """Whether people read along; never."""
        return False


def _append(path: Path, text: str) -> None:
    if path.exists() and path.stat().st_size > LARGEST_LOG:
        path.replace(path.with_suffix(".log.1"))
    with path.open("a", encoding="utf-8") as log:
        log.write(text)
