"""A child process with its log, stopped by its own id and never by name."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ChildProcess:
    """Runs from construction until `stop` or `kill`; leads its own session, so children end with it."""

    def __init__(self, argv: Sequence[str | Path], log: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.argv = [str(part) for part in argv]
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(  # noqa: S603 - runs what the caller's own code names
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def name(self) -> str:
        """The file name of the program."""
        return Path(self.argv[0]).name

    @property
    def pid(self) -> int:
        """The process id, also of its session."""
        return self._child.pid

    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._child.poll() is None

    def last_words(self, size: int = 1500) -> str:
        """Return the end of the log, for the message of a failure."""
        return self.log.read_bytes()[-size:].decode("utf-8", "replace")

    def stop(self, grace: float = 8.0) -> None:
        """Ask the process to end, then make it."""
        if self.is_running():
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End the process and its children at once, as `kill -9` does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait(5)
