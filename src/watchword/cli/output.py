"""The one way by which commands print: nothing from a server reaches the terminal as a control sequence."""

from __future__ import annotations

import click

from watchword.api.text import escape_text

LAYOUT = "\n\t"  # the characters with which commands lay out their own text


def echo(text: str | bytes, *, err: bool = False, nl: bool = True) -> None:
    """Print a text of one or many lines; bytes, which are a file's content, as they are."""
    click.echo(escape_text(text, keep=LAYOUT) if isinstance(text, str) else text, err=err, nl=nl)


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line, whatever the text holds."""
    click.echo(escape_text(text), err=err)
