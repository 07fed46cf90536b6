"""One control plane in a process of its own, and the installed kubectl."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from watchword.testing.process import ChildProcess, await_ready, free_port

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
NAMESPACE = "journey"


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl as the administrator, in the test's namespace."""

    kubeconfig: Path
    folder: Path

    def __call__(self, *arguments: str, stdin: object = None, environment: dict[str, str] | None = None) -> str:
        """Return what was printed; the command must succeed."""
        done = self.attempt(*arguments, stdin=stdin, environment=environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def attempt(
        self, *arguments: str, stdin: object = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Return the outcome, whatever it is."""
        given = stdin if isinstance(stdin, str) else orjson.dumps(stdin).decode() if stdin is not None else ""
        return subprocess.run(
            [*self.command, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **(environment or {})},
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that keeps running, such as a watch; the caller ends it."""
        return subprocess.Popen([*self.command, *arguments], stdout=subprocess.PIPE, text=True)

    @property
    def command(self) -> Sequence[str]:
        where = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.folder / 'cache'}", f"--namespace={NAMESPACE}")
        return (str(KUBECTL), *where)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    if KUBECTL is None:
        pytest.skip("kubectl is not on the PATH: install it, or name one with KUBECTL=/path/to/kubectl")
    folder = tmp_path_factory.mktemp("kubectl")
    data, port = folder / "data", free_port()
    command = [sys.executable, "-m", "watchword", "apiserver", f"--data-dir={data}", f"--port={port}", "--node"]
    server = ChildProcess(command, folder / "apiserver.log")
    try:
        await_ready(f"https://127.0.0.1:{port}", lambda: trust(data), server)
        caller = Kubectl(data / "admin.kubeconfig", folder)
        caller("create", "namespace", NAMESPACE)
        yield caller
    finally:
        server.stop()


def trust(data: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=(data / "pki" / "ca.crt").read_text())
