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


def reset_on_a_terminal(folder: Path, answer: bytes) -> subprocess.CompletedProcess[str]:
    """Run `watchword reset` with a terminal as standard input, on which the answer is typed."""
    controller, terminal = pty.openpty()
    try:
        os.write(controller, answer)
        argv = [sys.executable, "-m", "watchword", "reset", "--data-dir", str(folder)]
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

    done = reset_on_a_terminal(folder, answer)

    assert (done.returncode, folder.exists()) == (code, remains), done.stderr
    assert f"Remove everything in {folder}? [y/N]" in done.stderr
    assert ("nothing was changed" in done.stderr) == (code is ExitCode.REFUSED)


def test_no_command_asks_in_a_way_of_its_own() -> None:
    asking = [path.name for path in CLI.glob("*.py") if "click.confirm" in path.read_text()]

    assert asking == ["common_options.py"]
