"""Help fits the terminal, explains every option, and has an example that works."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from watchword.cli.examples import EXAMPLES, examples_of
from watchword.cli.main import COMMANDS, GROUPS, PROCESSES, cli

SCREENS = Path(__file__).parent / "screens"
FILES = ("fleet.backup", "hub.backup", "passphrase", "token-file", "ca.crt", "bootstrap.kubeconfig")
CHANGES = {"create", "delete", "add", "remove", "bind", "unbind", "enable", "disable", "uninstall", "grant"}
SAFE = {"init", "join", "clean", "deny", "accept", "rejoin"}  # whose wrong use changes a cluster or a hub


def commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}".strip(), command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}".strip())


ALL = dict(commands())


@pytest.mark.parametrize("width", [80, 140])
def test_no_line_of_help_is_wider_than_the_terminal(width: int) -> None:
    for path in ALL:
        shown = CliRunner().invoke(cli, [*path.split(), "--help"], terminal_width=width).output
        long = [line for line in shown.splitlines() if len(line) > width]
        assert not long, path


@pytest.mark.parametrize("path", ALL)
def test_every_option_says_what_it_is(path: str) -> None:
    for each in ALL[path].params:
        if isinstance(each, click.Option):
            said = each.help or ""
            assert said.endswith((".", ")")), f"{path} {each.opts[0]}: {said!r}"
            assert len(said.split()) >= 3, f"{path} {each.opts[0]}: {said!r} does not say what it is"


NAMING = {"--cluster", "--clusters", "--namespace", "--context", "--selector", "--request", "--in", "--ttl"}
TEXTS = [
    pytest.param(path, each, id=f"{path} {each.human_readable_name}")
    for path, command in ALL.items()
    for each in command.params
    if isinstance(each.type, click.types.StringParamType) and path != "help"
    if isinstance(each, click.Argument) or NAMING & {*each.opts}
    if path.split()[0] not in GROUPS[PROCESSES]
]


@pytest.mark.parametrize(("path", "parameter"), TEXTS)
def test_empty_name_is_refused(path: str, parameter: click.Parameter) -> None:
    """An unset variable of a script must not stand for every object, or for none."""
    is_list = parameter.multiple or parameter.nargs == -1

    for empty in ("", " ", ",", " , "):
        given = {str(parameter.name): (empty,) if is_list else empty}
        with pytest.raises(click.BadParameter, match="is empty"):
            parameter.consume_value(click.Context(ALL[path]), given)


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if not isinstance(command, click.Group)])
def test_every_command_has_an_example_that_parses(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).write_text("x7k2m9.q8w3e5r1t0y6u4i2")
    (tmp_path / "laptop").mkdir()

    for line in examples_of(path):
        words = shlex.split(line)
        assert words[: len(path.split())] == path.split()
        root = click.Context(cli, help_option_names=["-h", "--help"])  # as the command line makes it
        ALL[path].make_context(path, words[len(path.split()) :], parent=root)


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if isinstance(command, click.Group)])
def test_lists_of_commands_hold_whole_clauses_on_one_line_each(path: str) -> None:
    listed = render(f"{path} --help", 80).partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()

    assert len(listed) == len(ALL[path].commands)  # type: ignore[attr-defined]  # a group
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_examples_belong_to_commands_and_stand_in_their_help() -> None:
    assert set(EXAMPLES) <= set(ALL)
    shown = CliRunner().invoke(cli, ["accept", "--help"]).output
    assert "Examples:\n     watchword accept edge-1 edge-2\n" in shown


def test_processes_are_not_on_the_first_screen_and_every_command_is_in_one_group() -> None:
    first = CliRunner().invoke(cli, ["--help"]).output
    rest = CliRunner().invoke(cli, ["help", "processes"]).output

    listed = [name for group in GROUPS.values() for name in group]
    assert sorted(listed) == sorted(COMMANDS)
    assert all(f"\n  {name} " in first for title, group in GROUPS.items() if title != PROCESSES for name in group)
    assert not any(f"\n  {name} " in first for name in GROUPS[PROCESSES])
    assert all(f"\n  {name} " in rest for name in GROUPS[PROCESSES])


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, command in ALL.items()
        if path.split()[-1] in CHANGES
        or path in {*SAFE, "unjoin", "undeploy", "clean-clusters", "reset", "restore"}
        or (path.startswith(("revoke ", "rotate ")) and not isinstance(command, click.Group))
    ],
)
def test_every_command_that_changes_something_can_be_rehearsed_and_confirmed(path: str) -> None:
    flags = {name for each in ALL[path].params for name in each.opts}

    assert {"--dry-run", "--yes", "-y"} <= flags


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("argv", ["--help", "accept --help", "clusters --help"])
def test_screens(argv: str, width: int) -> None:
    """The screens are what people see: after a wanted change, write them with `python -m tests.cli.test_help_pages`."""
    assert render(argv, width) == screen(argv, width).read_text()


def render(argv: str, width: int) -> str:
    return CliRunner().invoke(cli, argv.split(), prog_name="watchword", terminal_width=width).output


def screen(argv: str, width: int) -> Path:
    return SCREENS / f"{argv.replace('--', '').replace(' ', '-')}.{width}.txt"


if __name__ == "__main__":
    for words in ("--help", "accept --help", "clusters --help"):
        for columns in (80, 140):
            screen(words, columns).write_text(render(words, columns))
