"""The command line starts light, and never shows a traceback."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from watchword import __version__
from watchword.cli import main
from watchword.cli._exit_codes import CREDENTIAL_UNKNOWN, ExitCode, decide_failure
from watchword.cli.main import COMMANDS, cli, run
from watchword.kube.errors import ConfigError, Conflict, Forbidden, Unauthorized, Unreachable

HEAVY = {
    "aiohttp", "apsw", "asyncio", "cryptography", "hypothesis", "joserfc", "msgspec", "orjson",
    "prometheus_client", "pytest", "rich", "ssl", "structlog", "uvloop", "yaml",
}  # fmt: skip
PROBE = "import sys; from watchword.cli.main import run; run({argv!r}); print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("argv", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE.format(argv=argv)], capture_output=True, text=True, check=True)

    roots = {name.split(".")[0] for name in done.stderr.split()}

    assert roots & HEAVY == set()
    assert {name for name in done.stderr.split() if name.startswith("watchword.")} <= {
        "watchword.cli",
        "watchword.cli.main",
        "watchword.cli._exit_codes",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_summary_that_the_overview_shows(name: str) -> None:
    command = import_module(f"watchword.cli.{name.replace('-', '_')}").command

    assert isinstance(command, click.Command)
    assert command.name == name
    assert (command.help or "").splitlines()[0] == COMMANDS[name]


def test_version_comes_from_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"watchword {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "suggestion"),
    [
        pytest.param(["completoin"], "`completion`", id="misspelt"),
        pytest.param(["get", "clusters"], "`clusters` or `status`", id="as kubectl lists clusters"),
        pytest.param(["get", "addons"], "`addon list`", id="as clusteradm lists add-ons"),
        pytest.param(["describe", "cluster", "edge"], "`clusters show`", id="as kubectl describes one"),
        pytest.param(["create", "token"], "`token create`", id="verb before noun"),
        pytest.param(["approve"], "`accept`", id="another word"),
    ],
)
def test_a_word_that_is_no_command_gets_the_one_that_is_meant(
    argv: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv) == ExitCode.NOT_USABLE
    assert f"did you mean {suggestion}?" in capsys.readouterr().err


def test_an_alias_runs_the_command_and_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["msa", "--help"]) == 0
    assert COMMANDS["serviceaccount"] in capsys.readouterr().out
    assert run(["--help"]) == 0
    assert "msa" not in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_code_for_the_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_WATCHWORD_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "exit_code", "sentence"),
    [
        pytest.param(ConfigError("no such context"), ExitCode.NOT_USABLE, "no such context", id="configuration"),
        pytest.param(Unreachable("no answer"), ExitCode.UNREACHABLE, "no answer", id="no answer"),
        pytest.param(
            Unauthorized("who are you", code=401),
            ExitCode.REFUSED,
            f"{CREDENTIAL_UNKNOWN} (who are you); get a new kubeconfig",
            id="unknown identity",
        ),
        pytest.param(Forbidden("not for you", code=403), ExitCode.REFUSED, "not for you", id="refused"),
        pytest.param(Conflict("moved on", code=409), ExitCode.FAILED, "moved on", id="any other answer"),
        pytest.param(
            FileNotFoundError(2, "No such file", "x.yaml"), ExitCode.FAILED, "x.yaml: no such file", id="system"
        ),
    ],
)
def test_decide_failure(error: Exception, exit_code: int, sentence: str) -> None:
    failure = decide_failure(error)

    assert (failure.exit_code, failure.sentence) == (exit_code, sentence)


def test_unexpected_failure_does_not_quote_what_it_says() -> None:
    failure = decide_failure(ValueError("token=abcdef.0123456789abcdef"))

    assert failure.exit_code == ExitCode.BUG
    assert "abcdef" not in failure.sentence


def _command_raising(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("explode", callback=fail)


@pytest.mark.parametrize(
    ("error", "exit_code", "printed"),
    [
        pytest.param(KeyboardInterrupt(), 130, [""], id="interrupt"),
        pytest.param(
            Unreachable("no answer from hub"), ExitCode.UNREACHABLE, ["watchword: no answer from hub"], id="ours"
        ),
        pytest.param(click.UsageError("two methods"), ExitCode.NOT_USABLE, ["Error: two methods"], id="usage"),
    ],
)
def test_failures_end_in_one_sentence_and_a_code(
    error: BaseException, exit_code: int, printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cli.add_command(_command_raising(error))
    try:
        assert run(["explode"]) == exit_code
    finally:
        del cli.commands["explode"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1:] == printed


UNREACHABLE_SERVER = """\
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_not_mistaken_for_a_socket(closed: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(UNREACHABLE_SERVER)
    script = f'exec "$0" -m watchword status --kubeconfig "$1" {closed}'

    done = subprocess.run(["sh", "-c", script, sys.executable, kubeconfig], capture_output=True, check=False)

    assert done.returncode == ExitCode.UNREACHABLE


def test_commands_print_by_the_one_function_that_escapes() -> None:
    sources = Path(main.__file__).parent.glob("*.py")
    direct = {path.name for path in sources if "click.echo(" in path.read_text() and path.name != "output.py"}

    assert direct <= {"up.py"}  # which prints one constant text before anything is imported
