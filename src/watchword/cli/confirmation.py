"""Asks before something is removed or replaced."""

from __future__ import annotations

import sys

import click


def confirm(question: str, warning: str, *, yes: bool) -> None:
    """Ask on a terminal; elsewhere `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning}: give --yes")
    click.confirm(question, abort=True)
