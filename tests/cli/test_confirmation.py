"""Every command that asks before it removes something asks in the same way."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from watchword.cli._exit_codes import ExitCode
from watchword.cli.output import confirm

CLI = Path(sys.modules[confirm.__module__].__file__ or "").parent
END_OF_INPUT = b"\x04"
ANNOUNCE = """
import signal, sys
def interrupt_handler(number, handler, change=signal.signal):
    previous = change(number, handler)
    if handler is signal.default_int_handler:
        print("waits", file=sys.stderr, flush=True)
    return previous
signal.signal = interrupt_handler
from watchword.cli.main import main
main()
"""
"""Runs the command line, and says when it is about to wait for input: a test cannot see that otherwise."""


def is_blocked(pid: int) -> bool:
    """Tell whether the process sleeps in a system call: a signal just before the call would not interrupt it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


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


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows when the command waits")
@pytest.mark.parametrize(
    ("command", "question"),
    [
        pytest.param(["clusterset", "remove", "europe", "edge"], "[y/N]", id="question"),
        pytest.param(["token", "create", "-"], "", id="secret from standard input"),
    ],
)
def test_first_interrupt_ends_a_command_that_waits_for_input(command: list[str], question: str) -> None:
    controller, terminal = pty.openpty()
    argv = [sys.executable, "-c", ANNOUNCE, *command]
    with subprocess.Popen(argv, stdin=terminal, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waits\n"
        said = ""
        while question not in said:
            said += process.stderr.read(1) or pytest.fail(said)
        while not is_blocked(process.pid):
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        said += process.stderr.read()
        assert process.wait(60) == ExitCode.INTERRUPTED, said
    os.close(controller)
    os.close(terminal)


def test_no_command_asks_in_a_way_of_its_own() -> None:
    asking = [path.name for path in CLI.glob("*.py") if "click.confirm" in path.read_text()]

    assert asking == ["output.py"]
