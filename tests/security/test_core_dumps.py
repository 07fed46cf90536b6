"""A process that is killed leaves no copy of its memory behind."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

from watchword.testing.process import ChildProcess, await_ready, free_port

pytestmark = pytest.mark.real_time


def test_no_process_leaves_a_core_dump(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    command = [sys.executable, "-m", "watchword", "apiserver", f"--data-dir={data}", f"--port={port}"]
    server = ChildProcess(["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh", *command], tmp_path / "log")
    try:
        await_ready(
            f"https://127.0.0.1:{port}",
            lambda: ssl.create_default_context(cadata=(data / "pki" / "ca.crt").read_text()),
            server,
        )
        limits = Path(f"/proc/{server.pid}/limits").read_text().splitlines()
    finally:
        server.stop()

    [row] = [line.split() for line in limits if line.startswith("Max core file size")]
    assert row[4:6] == ["0", "0"]
