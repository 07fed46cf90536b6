"""Asks before something is removed, revoked or replaced: one way, and one exit code for each answer."""

from __future__ import annotations

import sys

import click

from watchword.admin.errors import OperationRefused


def confirm(question: str, warning: str, *, yes: bool) -> None:
    """Ask on a terminal; elsewhere `--yes` is needed. `OperationRefused` when the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning}: give --yes")
    if not click.confirm(question, err=True):  # standard output belongs to the result
        raise OperationRefused("not confirmed, and nothing was changed")
