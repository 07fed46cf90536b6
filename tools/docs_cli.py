"""Renders the command reference from the commands themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator
from inspect import cleandoc
from typing import TypeAlias

import click

from watchword.cli._exit_codes import MEANINGS
from watchword.cli.main import COMMANDS, GROUPS, cli

PROGRAM = "watchword"
HEAD = """# Commands

Rendered from the code by `make docs`. `ww` is the same program under a shorter name, `watchword COMMAND --help` prints
what stands here with examples, and `watchword completion SHELL` makes the shell complete it.
"""
DEPLOYED = ("hub", "agent", "operator", "grpc-server", "sample-addon", "managed-serviceaccount", "clean-clusters")
CONNECTION = ("--kubeconfig", "--context")
CONNECTS = "Every command that connects to a cluster has `--kubeconfig` and `--context`."
MIN_SHARED = 6  # an option that so many commands have, with the same meaning, is described once

Record: TypeAlias = tuple[str, str]
"""The flags of an option, and its help."""


def render_cli() -> str:
    """Return the page: one section for each command, in order of use."""
    context = click.Context(cli, info_name=PROGRAM)
    commands = {name: cli.get_command(context, name) for name in COMMANDS}
    counts = Counter(
        record for name, each in commands.items() if each is not None for record in _all_records(each, name, context)
    )
    shared = {record: count for record, count in counts.items() if count >= MIN_SHARED}
    sections = ["\n".join(_section(each, name, context, shared)) for name, each in commands.items()]
    index = [row for title, group in GROUPS.items() for row in _index(title, group)]
    codes = [f"- {code.value}: {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(
        [
            HEAD,
            *index,
            "Before the command: " + "; ".join(_words(cli, context)) + ".",
            *("", "## Options of many commands", "", *_list(shared), CONNECTS, "", "\n".join(sections)),
            *("## Exit codes", "", *codes, ""),
        ]
    )


def _index(title: str, group: dict[str, str]) -> list[str]:
    return [f"**{title}**: " + ", ".join(f"[`{name}`](#watchword-{name})" for name in group), ""]


def _words(group: click.Group, context: click.Context) -> list[str]:
    return [f"`{flags}` ({_plain(text)})" for flags, text in _records(group, context)]


def _section(
    command: click.Command | None, name: str, parent: click.Context, shared: Container[Record], depth: int = 2
) -> Iterator[str]:
    if command is None or command.hidden:
        return
    context = click.Context(command, info_name=name, parent=parent)
    yield from (f"{'#' * depth} {context.command_path}", "", _prose(command.help or ""), "")
    usage = " ".join(command.collect_usage_pieces(context))
    if usage not in ("", "[OPTIONS]", "[OPTIONS] COMMAND [ARGS]..."):
        yield from (f"`{context.command_path} {usage}`", "")
    if context.command_path.removeprefix(f"{PROGRAM} ") in DEPLOYED:
        yield from ("Deployments run it; its options are in its `--help`.", "")
        return
    options = _records(command, context)
    yield from _list([record for record in options if record not in shared])
    names = [flags.split()[0].rstrip(",") for flags, text in options if (flags, text) in shared]
    common = [f"`{name}`" for name in names if name not in CONNECTION]
    if common:
        yield from (f"[Also](#options-of-many-commands): {', '.join(common)}.", "")
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _section(command.get_command(context, child), child, context, shared, depth + 1)


def _list(records: Collection[Record]) -> Iterator[str]:
    if records:
        yield from (f"- `{_cell(flags)}`: {_cell(text)}" for flags, text in records)
        yield ""


def _all_records(command: click.Command, name: str, parent: click.Context) -> Iterator[Record]:
    """Yield the options of a command and of those below it."""
    context = click.Context(command, info_name=name, parent=parent)
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
    return [record for each in options if (record := each.get_help_record(context)) is not None]


def _prose(text: str) -> str:
    return cleandoc(text).replace("\b\n", "").replace("<", "\\<")


def _plain(text: str) -> str:
    return text.strip().rstrip(".")


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("INTEGER RANGE", "NUMBER").replace("FLOAT RANGE", "NUMBER")
    return text.replace("<=", "≤").replace(">=", "≥")
