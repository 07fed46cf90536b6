"""Every command that asks before it removes something asks in the same way."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from watchword.cli._exit_codes import ExitCode
from watchword.cli.common_options import confirm

CLI = Path(sys.modules[confirm.__module__].__file__ or "").parent
END_OF_INPUT = b"\x04"


def run_on_a_terminal(answer: bytes, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a terminal as standard input, on which the answer is typed."""
    controller, terminal = pty.openpty()
    try:
        os.write(controller, answer)
        argv = [sys.executable, "-m", "watchword", *command]
        return subprocess.run(argv, stdin=terminal, capture_output=True, text=True, timeout=60, check=False)
    finally:
        os.close(controller)
        os.close(terminal)


@pytest.mark.parametrize(
    ("answer", "code", "remains"),
    [
        pytest.param(b"n\n", ExitCode.REFUSED, True, id="no"),
        pytest.param(b"\n", ExitCode.REFUSED, True, id="no is the default"),
        pytest.param(END_OF_INPUT, ExitCode.INTERRUPTED, True, id="no answer"),
        pytest.param(b"y\n", ExitCode.DONE, False, id="yes"),
    ],
)
def test_answer_on_a_terminal_decides(tmp_path: Path, answer: bytes, code: ExitCode, *, remains: bool) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir(mode=0o700)

    done = run_on_a_terminal(answer, "reset", "--data-dir", str(folder))

    assert (done.returncode, folder.exists()) == (code, remains), done.stderr
    assert f"Remove everything in {folder}? [y/N]" in done.stderr
    assert ("nothing was changed" in done.stderr) == (code is ExitCode.REFUSED)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["clusterset", "unbind", "europe", "-n", "team"], id="unbind"),
        pytest.param(["clusterset", "remove", "europe", "edge"], id="remove from a set"),
    ],
)
def test_command_that_takes_accounts_from_clusters_asks_first(command: list[str]) -> None:
    done = run_on_a_terminal(b"n\n", *command)

    assert done.returncode == ExitCode.REFUSED
    assert "are revoked. [y/N]" in done.stderr


def test_no_command_asks_in_a_way_of_its_own() -> None:
    asking = [path.name for path in CLI.glob("*.py") if "click.confirm" in path.read_text()]

    assert asking == ["common_options.py"]
