"""Short forms of click's options: a switch, a text, an option whose default is shown, a path."""

import os
from collections.abc import Callable
from functools import partial, reduce, wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class AliasedOption(click.Option):
    """An option whose further names, which other programs use, are accepted and not listed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


class NewFile(click.Path):
    """The path of a file to write, in a folder that exists."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse a folder that does not exist before anything is done whose result could not be written."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = path.absolute().parent
        if not folder.is_dir():
            self.fail(f"the folder {folder} does not exist: create it first, or check the path", param, ctx)
        return path


flag = partial(click.option, is_flag=True)
text = partial(click.option, default="")
option = partial(click.option, show_default=True)
file_option = partial(click.option, type=click.Path(path_type=Path, dir_okay=False))
folder_option = partial(click.option, type=click.Path(path_type=Path, file_okay=False))


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Add several options to a command, in the order in which its help lists them."""
    return lambda command: reduce(lambda decorated, add: add(decorated), reversed(options), command)


def gathered(into: str, build: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Add options to a command, which gets what `build` makes of their values as one argument."""
    names = signature(build).parameters

    def decorate(command: F) -> F:
        @with_options(*options)
        @wraps(command)
        def gathering(*args: Any, **kwargs: Any) -> Any:
            given = {name: kwargs.pop(name) for name in names}
            return command(*args, **{into: build(**given)}, **kwargs)

        return gathering  # type: ignore[return-value]  # a command stays a command

    return decorate
