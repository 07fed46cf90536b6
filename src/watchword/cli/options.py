"""Types and options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial, reduce, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from watchword.cli.output import PREFIX, fill_template

if TYPE_CHECKING:
    from watchword.local.data_directory import FleetDirectory

F = TypeVar("F", bound=Callable[..., Any])


class AliasedOption(click.Option):
    """An option whose further names, which other programs use, are accepted and not listed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


class NonEmpty(click.Parameter):
    """Refuses an empty text: an unset variable of a script must not stand for every object, or for none."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        given = value if isinstance(value, list | tuple) else [value]
        is_empty = any(isinstance(each, str) and not each.strip(" ,") for each in given)
        if is_empty and source is ParameterSource.COMMANDLINE:
            raise click.BadParameter("the text is empty: give a value", ctx, self)
        return value, source


class NonEmptyArgument(NonEmpty, click.Argument):
    """An argument that names something."""


class NonEmptyOption(NonEmpty, click.Option):
    """An option that names something."""


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


argument = partial(click.argument, cls=NonEmptyArgument)
flag = partial(click.option, is_flag=True)
text = partial(click.option, default="")
named = partial(click.option, cls=NonEmptyOption)
option = partial(click.option, show_default=True)
file_option = partial(click.option, type=click.Path(path_type=Path, dir_okay=False))
folder_option = partial(click.option, type=click.Path(path_type=Path, file_okay=False))
many = partial(named, multiple=True)


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


def parse_duration_flag(text: str, flag: str) -> timedelta:
    """Read a duration given to a flag; raise `click.UsageError` when it is none."""
    from watchword.api.validation import DurationError, parse_duration

    try:
        parsed = parse_duration(text)
    except DurationError as cause:
        raise click.BadParameter(str(cause), param_hint=flag) from cause
    if parsed < timedelta(0):
        raise click.BadParameter("a duration cannot be negative", param_hint=flag)
    return parsed


class Duration(click.ParamType[timedelta]):
    """A duration as Go writes it, such as 90s or 1h30m."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ARG002 - click's shape
        return value if isinstance(value, timedelta) else parse_duration_flag(value, param.opts[0] if param else "")


duration = partial(option, type=Duration())


class OutputForm(click.Choice[str]):
    """One of the forms, or `jsonpath=` with a template; `text` means `table`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if isinstance(value, str) and value.startswith(PREFIX):
            fill_template({}, value.removeprefix(PREFIX))  # refused before the command changes anything
            return value
        return super().convert("table" if value == "text" else value, param, ctx)


def output_option(*more: str) -> Callable[[F], F]:
    """Add `-o`; the command gets `output`, one of the forms."""
    forms = ("table", *more, "json", "yaml")
    return option(
        "--output",
        "-o",
        type=OutputForm(forms),
        default=forms[0],
        metavar=f"[{'|'.join(forms)}|jsonpath=PATH]",
        help="Output format; jsonpath={.path} prints one part.",
    )


JOIN_COMMAND_OPTIONS = (
    flag("--show-token", help="Print the token even if standard output is not a terminal."),
    click.option(
        "--output-join-command-file",
        "command_file",
        type=NewFile(),
        help="Write the join command, token included, to this file (0600).",
    ),
)
"""Where a join command goes, which holds a token: the command gets `show_token` and `command_file`."""


def wait_options(what: str, *, also: str = "") -> Callable[[F], F]:
    """Add `--wait` and `--timeout`; the command gets `wait`, the time to wait, or None.

    Under the name `also` it gets the `--timeout` that was given, None without one: it bounds the whole command.
    """
    bounded = "Time limit of the whole command" if also else "Time limit of --wait"

    def decorate(command: F) -> F:
        @flag("--wait", "waits", help=f"Wait until {what}.")
        @click.option("--timeout", help=f"{bounded}, 5m by default; a bare number is seconds.")
        @wraps(command)
        def with_patience(*args: Any, waits: bool, timeout: str | None, **kwargs: Any) -> Any:
            text = timeout or "5m"
            patience = parse_duration_flag(f"{text}s" if text.isdigit() else text, "--timeout")
            always = {also: patience if timeout else None} if also else {}
            return command(*args, wait=patience if waits else None, **always, **kwargs)

        return with_patience  # type: ignore[return-value]  # a command stays a command

    return decorate


def split(values: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of values that may each hold several, separated by commas; each part once."""
    return tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


DRY_RUN = "Validate on the server without changing anything."


def change_options(dry_run: str = DRY_RUN, *, asks: bool = False) -> Callable[[F], F]:
    """Add `--dry-run` and `--yes` to a command that changes something.

    It gets `dry_run`, and `yes` if it asks; for others `--yes` is accepted, so that scripts can always give it.
    """
    effect = "Do not ask for confirmation." if asks else "No effect: this command never asks."
    return with_options(flag("--dry-run", help=dry_run), flag("--yes", "-y", expose_value=asks, help=effect))


def fleet_directory_of(data_dir: Path | None) -> FleetDirectory:
    from watchword.local.data_directory import FleetDirectory, default_data_directory

    return FleetDirectory((data_dir or default_data_directory()).absolute())


data_directory_option = gathered(
    "folder",
    fleet_directory_of,
    folder_option("--data-dir", help="Data directory of the fleet; by default that of `up`."),
)
"""Adds the option; the command gets `folder`, a `FleetDirectory`."""
