"""Every command line that the documentation shows is one that the command line understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

from tools.docs import pages
from watchword.cli.main import cli

ROOT = Path(__file__).parents[2]
RENDERED = ROOT / "docs" / "reference"  # made from the commands themselves
FENCE = re.compile(r"```(?:console|sh|bash|shell)?\n(.*?)```", re.DOTALL)
TYPED = re.compile(r"^(?:\$ )?(?:watchword|ww) (?P<line>.*)$", re.MULTILINE)
MENTIONED = re.compile(r"`(?:watchword|ww) (?P<line>[^`]+)`")
ENDS = {"|", ">", "<", "&&", ";"}  # of a command, where the shell continues
LEFT_OUT = "…"


def command_lines(text: str) -> Iterable[tuple[str, bool]]:
    """Return the lines after `watchword`, and whether each is complete."""
    for fence in FENCE.findall(text.replace("\\\n", " ")):
        yield from ((match["line"], True) for match in TYPED.finditer(fence))
    yield from ((match["line"], False) for match in MENTIONED.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def objections(line: str, *, whole: bool) -> str:
    """Return what the parser has against a line, empty when nothing; what is only mentioned may leave parts out."""
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    try:
        _parse(cli, words[:end], whole=whole and LEFT_OUT not in line)
    except click.UsageError as error:
        return error.format_message()
    return ""


def _parse(command: click.Command, words: list[str], *, whole: bool, parent: click.Context | None = None) -> None:
    """Go through the verbs with click's own parsers; nothing is run, and no value is looked up."""
    context = click.Context(command, parent=parent, info_name=command.name, **command.context_settings)
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    for parameter in command.get_params(context):
        _judge(parameter, values.get(parameter.name or ""), context, whole=whole)
    if isinstance(command, click.Group) and rest:
        _, verb, rest = command.resolve_command(context, rest)
        assert verb is not None
        _parse(verb, rest, whole=whole, parent=context)
    elif set(rest) - {LEFT_OUT}:
        raise click.UsageError(f"nothing takes {' '.join(rest)}")


def _judge(parameter: click.Parameter, value: object, context: click.Context, *, whole: bool) -> None:
    if whole and parameter.required and parameter.value_is_missing(value):
        raise click.MissingParameter(ctx=context, param=parameter)
    if isinstance(parameter.type, click.Choice) and isinstance(value, str) and not value.isupper():
        parameter.type.convert(value, parameter, context)


@pytest.mark.parametrize(
    "page", [str(page.relative_to(ROOT)) for page in pages(ROOT) if not page.is_relative_to(RENDERED)]
)
def test_commands_that_are_shown_can_be_typed(page: str) -> None:
    lines = command_lines((ROOT / page).read_text())

    assert {line: said for line, whole in lines if (said := objections(line, whole=whole))} == {}


@pytest.mark.parametrize(
    ("line", "whole", "objection"),
    [
        pytest.param("accept --clusters edge-1 --wait", True, "", id="right"),
        pytest.param("join … --cluster-name edge-1", True, "", id="parts left out"),
        pytest.param("rotate cluster", False, "", id="mentioned"),
        pytest.param("clusters show", True, "Missing argument 'NAME'.", id="incomplete"),
        pytest.param("clusters CLUSTER", False, "No such command 'CLUSTER'.", id="unknown verb"),
        pytest.param("forecast CLUSTER", False, "nothing takes CLUSTER", id="argument that nothing takes"),
        pytest.param("accept --speed 3", False, "No such option '--speed'.", id="unknown flag"),
        pytest.param("status -o xml", True, "Invalid value for '--output' / '-o': 'xml'", id="unknown choice"),
    ],
)
def test_objections(line: str, whole: bool, objection: str) -> None:  # noqa: FBT001 - a column
    assert objections(line, whole=whole).startswith(objection)
    assert bool(objections(line, whole=whole)) == bool(objection)


def test_enough_commands_are_found() -> None:
    lines = [line for page in pages(ROOT) for line, _ in command_lines(page.read_text())]

    assert len(lines) > 80
