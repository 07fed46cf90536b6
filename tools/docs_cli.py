"""Renders the command reference from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from watchword.cli._exit_codes import MEANINGS
from watchword.cli.examples import EXAMPLES
from watchword.cli.main import COMMANDS, GROUPS, cli

PROGRAM = "watchword"
HEAD = """# Commands

Rendered from the code by `make docs`. `ww` is the same program under a shorter name, `watchword COMMAND --help` prints
what stands here, and `watchword completion SHELL` makes the shell complete it.
"""


def render_cli() -> str:
    """Return the page: one section for each command, in order of use."""
    context = click.Context(cli, info_name=PROGRAM)
    sections = ["\n".join(_section(cli.get_command(context, name), name, context, 2)) for name in COMMANDS]
    index = [row for title, group in GROUPS.items() for row in _index(title, group)]
    codes = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(
        [
            HEAD,
            *index,
            "Before the command: " + "; ".join(_words(cli, context)) + ".",
            *("", "\n".join(sections)),
            *("## Exit codes", "", "| code | meaning |", "|---|---|", *codes, ""),
        ]
    )


def _index(title: str, group: dict[str, str]) -> list[str]:
    rows = [f"| [`{name}`](#watchword-{name}) | {summary} |" for name, summary in group.items()]
    return [f"**{title}**", "", "| command | what it does |", "|---|---|", *rows, ""]


def _words(group: click.Group, context: click.Context) -> list[str]:
    return [f"`{flags}` ({_plain(text)})" for flags, text in _records(group, context)]


def _section(command: click.Command | None, name: str, parent: click.Context, depth: int) -> Iterator[str]:
    if command is None or command.hidden:
        return
    context = click.Context(command, info_name=name, parent=parent)
    yield from (f"{'#' * depth} {context.command_path}", "", _prose(command.help or ""), "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{context.command_path} {usage}".rstrip(), "```", "")
    if context.command_path.removeprefix(f"{PROGRAM} ") in EXAMPLES:
        examples = EXAMPLES[context.command_path.removeprefix(f"{PROGRAM} ")]
        yield from ("```sh", *(f"{PROGRAM} {line}" for line in examples), "```", "")
    options = _records(command, context)
    if options:
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{_cell(flags)}` | {_cell(text)} |" for flags, text in options)
        yield ""
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _section(command.get_command(context, child), child, context, depth + 1)


def _records(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
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
    return text.replace("|", "\\|").replace("<=", "≤").replace(">=", "≥")
