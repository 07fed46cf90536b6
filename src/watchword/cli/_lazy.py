"""A command group that imports a command only when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Has its commands by name and one line of help; each is in a module that exports `command`."""

    def __init__(self, *args: Any, commands_by_module: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._catalog = dict(commands_by_module)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the catalog, which is the order of use."""
        return [*self._catalog, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self._catalog:
            return super().get_command(ctx, cmd_name)
        module, _ = self._catalog[cmd_name]
        command = import_module(module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's shape
        """Write the list of commands from the catalog alone: help must not pay for imports."""
        eager = {name: command.get_short_help_str() for name, command in self.commands.items()}
        rows = [(name, summary) for name, (_, summary) in self._catalog.items()] + list(eager.items())
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one gets its nearest neighbours as a response."""
        known = self.list_commands(ctx)
        near = [] if ctx.resilient_parsing or args[0] in known else _nearest(args[0], known)
        if near:
            ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)


def _nearest(word: str, names: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(word, names, n=2)
