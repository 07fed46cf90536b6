"""Renders the command reference from the commands themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import TypeAlias

import click

from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import COMMANDS, GROUPS, cli

PROGRAM = "watchword"
HEAD = """# Commands

Rendered from the code by `make docs`. `ww` is the same program under a shorter name, `watchword COMMAND --help`
explains a command with examples, and `watchword completion SHELL` makes the shell complete it. Every command that
connects to a cluster has `--kubeconfig` and `--context`. An option that several commands have is described once.
Options of commands that Deployments run (hub, agent, operator and others) are in their `--help` alone.
"""
DEPLOYED = ("hub", "agent", "operator", "grpc-server", "sample-addon", "managed-serviceaccount", "clean-clusters")
CONNECTION = ("--kubeconfig", "--context")
ALIKE = {  # options that every command words for itself
    "-y": ("-y, --yes", "Do not ask for confirmation; no effect where a command never asks."),
    "--dry-run": ("--dry-run", "Validate on the server, or print what would be done, without changing anything."),
}
MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed for a reason that the sentence on standard error gives",
    ExitCode.NOT_USABLE: "a flag, a file or a token is missing, or cannot be used",
    ExitCode.UNREACHABLE: "the server did not answer, or what was waited for did not come in time: try again later",
    ExitCode.REFUSED: "the server, a check of ours, or the answer to a question said no; nothing was changed",
    ExitCode.LEFTOVERS: "done here, but something is left to do elsewhere (`unjoin`, `revoke held-by`)",
    ExitCode.ATTENTION: "something needs attention (`doctor`, `status --check`)",
    ExitCode.NOT_FOUND: "there is nothing of that name; nothing was changed",
    ExitCode.BUG: "a bug: run it again with `-vv` and report what it prints",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.BROKEN_PIPE: "the reader of the output went away",
}
MIN_SHARED = 9  # an option that so many commands have, with the same meaning, is in a list of its own

Record: TypeAlias = tuple[str, str]
"""The flags of an option, and its help."""


@dataclass(frozen=True)
class Described:
    """Where options are described: in the list of shared ones, or at the command that has them first."""

    shared: Collection[Record]
    first: dict[Record, str] = field(default_factory=dict)

    def place(self, record: Record, path: str) -> str:
        """Return the command's own path when it describes the option, else a link to what does."""
        if record in self.shared:
            return "[Also](#options-of-many-commands)"
        first = self.first.setdefault(record, path)
        return path if first == path else f"As [`{first}`](#{PROGRAM}-{first.replace(' ', '-')})"


def render_cli() -> str:
    """Return the page: one section for each command, in order of use."""
    context = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    commands = {name: cli.get_command(context, name) for name in COMMANDS}
    counts = Counter(
        record for name, each in commands.items() if each is not None for record in _all_records(each, name, context)
    )
    shared = [record for record, count in counts.items() if count >= MIN_SHARED]
    described = Described(shared)
    sections = ["\n".join(_section(each, name, context, described)) for name, each in commands.items()]
    index = [row for title, group in GROUPS.items() for row in _index(title, group)]
    codes = [f"- {code.value}: {MEANINGS[code]}" for code in ExitCode]
    return "\n".join(
        [
            HEAD,
            *index,
            "Before the command: " + "; ".join(_words(cli, context)) + ".",
            *("", "## Options of many commands", "", *_list(shared), "\n".join(sections)),
            *("## Exit codes", "", *codes, ""),
        ]
    )


def _index(title: str, group: dict[str, str]) -> list[str]:
    return [f"**{title}**: " + ", ".join(f"[`{name}`](#watchword-{name})" for name in group), ""]


def _words(group: click.Group, context: click.Context) -> list[str]:
    return [f"`{flags}` ({_plain(text)})" for flags, text in _records(group, context)]


def _section(
    command: click.Command | None, name: str, parent: click.Context, described: Described, depth: int = 2
) -> Iterator[str]:
    if command is None or command.hidden:
        return
    context = click.Context(command, info_name=name, parent=parent)
    path = context.command_path.removeprefix(f"{PROGRAM} ")
    yield from (f"{'#' * depth} {context.command_path}", "", _summary(command.help or ""), "")
    usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    if usage and not isinstance(command, click.Group):
        yield from (f"Arguments: `{usage}`", "")
    if path in DEPLOYED:
        return
    yield from _options(_records(command, context), path, described)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _section(command.get_command(context, child), child, context, described, depth + 1)


def _options(records: Collection[Record], path: str, described: Described) -> Iterator[str]:
    """Describe the options of a command that are new, and name where the others are described."""
    places = {record: described.place(record, path) for record in records if record[0].split()[0] not in CONNECTION}
    yield from _list([record for record, place in places.items() if place == path])
    for place in dict.fromkeys(places.values()):
        if place != path:
            flags = [f"`{_flag(record)}`" for record, other in places.items() if other == place]
            yield from (f"{place}: {', '.join(flags)}.", "")


def _flag(record: Record) -> str:
    return record[0].split()[0].rstrip(",")


def _list(records: Collection[Record]) -> Iterator[str]:
    if records:
        yield from (f"- `{_cell(flags)}`: {_cell(text)}" for flags, text in records)
        yield ""


def _all_records(command: click.Command, name: str, parent: click.Context) -> Iterator[Record]:
    """Yield the options of a command and of those below it."""
    context = click.Context(command, info_name=name, parent=parent)
    if parent.parent is None and name in DEPLOYED:
        return
    yield from _records(command, context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _all_records(found, child, context)


def _records(command: click.Command, context: click.Context) -> list[Record]:
    """Return flags and help of every option but --help, which all have."""
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    options = [each for each in options if "--help" not in each.opts]
    records = [record for each in options if (record := each.get_help_record(context)) is not None]
    return [ALIKE.get(_flag(record), record) for record in records]


def _summary(text: str) -> str:
    """Return the first paragraph; `--help` prints the others."""
    return cleandoc(text).partition("\n\n")[0].replace("<", "\\<")


def _plain(text: str) -> str:
    return text.strip().rstrip(".")


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("INTEGER RANGE", "NUMBER").replace("FLOAT RANGE", "NUMBER")
    return text.replace("<=", "≤").replace(">=", "≥")
