"""A child process with its log, stopped by its process id; and waiting until it serves."""

import contextlib
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from watchword.local.data_directory import free_ports
from watchword.testing.errors import PlaneFailed

START_PATIENCE = 90.0


def free_port() -> int:
    """Return a free loopback port that the system does not assign to another connection meanwhile."""
    return next(free_ports())


class ChildProcess:
    """Runs from construction until `stop` or `kill`; leads its own session, so that its children end with it."""

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
        return Path(self.argv[0]).name

    @property
    def pid(self) -> int:
        return self._child.pid

    def is_running(self) -> bool:
        return self._child.poll() is None

    def log_tail(self, size: int = 1500) -> str:
        """Return the end of the log, for the message of a failure."""
        return self.log.read_bytes()[-size:].decode("utf-8", "replace")

    def stop(self, grace: float = 8.0) -> None:
        if self.is_running():
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait(5)


def await_ready(server: str, trust: Callable[[], ssl.SSLContext], *parts: ChildProcess) -> None:
    """Return once the API server is ready; `PlaneFailed` when a part of it ends or time is up."""
    give_up_at = time.monotonic() + START_PATIENCE
    while not _is_ready(f"{server}/readyz", trust):
        for part in parts:
            if not part.is_running():
                raise PlaneFailed(f"{part.name} ended: {part.log_tail()}")
        if time.monotonic() > give_up_at:
            raise PlaneFailed(f"not ready within {START_PATIENCE:g} seconds: {parts[-1].log_tail()}")
        time.sleep(0.02)


def _is_ready(url: str, trust: Callable[[], ssl.SSLContext]) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=trust()) as answer:  # noqa: S310 - our own loopback server
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):  # also while the CA file is not written yet
        return False
