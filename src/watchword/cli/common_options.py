"""What the verbs of registration have in common: output, waiting, rehearsing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from watchword.admin.errors import OperationRefused
from watchword.api.text import escape_text
from watchword.cli.connection_options import complete_clusters
from watchword.cli.discovery_options import parse_duration_flag
from watchword.cli.options import F, NewFile, flag, folder_option, gathered, option, text
from watchword.cli.output import echo

PREFIX = "jsonpath="
HINT = "write a path like {.items[*].metadata.name}"
_PART = re.compile(r"\{([^{}]*)\}")


def fill_template(document: Any, template: str) -> str:
    """Return the template with every `{.path}` replaced by what it leads to; `click.BadParameter` for others."""
    braced = template if "{" in template else f"{{{template}}}"
    return _PART.sub(lambda part: _fill(document, part.group(1).strip()), braced)


def _fill(document: Any, expression: str) -> str:
    import orjson

    from watchword.api.jsonpath import JsonPathError, find

    if len(expression) > 1 and expression[0] == expression[-1] and expression[0] in "'\"":
        return expression[1:-1].replace("\\n", "\n").replace("\\t", "\t")
    if expression.split(" ", maxsplit=1)[0] in ("range", "end", "if"):
        raise click.BadParameter(f"{{{expression}}} is not supported: {HINT}", param_hint="-o")
    path = expression.removeprefix("$")
    try:
        found = find(document, path if path.startswith((".", "[")) else f".{path}")
    except JsonPathError as cause:
        raise click.BadParameter(f"{cause}: {HINT}", param_hint="-o") from cause
    return " ".join(value if isinstance(value, str) else orjson.dumps(value).decode() for value in found)


class OutputForm(click.Choice[str]):
    """One of the forms, or `jsonpath=` with a template; `text` means `table`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if isinstance(value, str) and value.startswith(PREFIX):
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


def join_command_file(path: Path, command: str) -> None:
    """Write a join command, which holds a token, to a private file in a folder that exists."""
    from watchword.kube.files import write_private_file

    write_private_file(path, f"{command}\n".encode())
    echo(f"wrote the join command to {path}", err=True)


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


def format_document(document: Any, form: str) -> str:
    if form.startswith(PREFIX):
        return fill_template(document, form.removeprefix(PREFIX)) + "\n"
    if form == "yaml":
        from watchword.api import yaml

        return yaml.dump(document)
    import orjson

    return escape_text(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode(), keep="\n") + "\n"


def without_managed_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def show_result(document: Any, form: str, describe: Callable[[], str]) -> None:
    """Print a result: as lines for people, or as a document."""
    echo(f"{describe().rstrip()}\n" if form == "table" else format_document(document, form), nl=False)


def split(values: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of values that may each hold several, separated by commas; each part once."""
    return tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


def cluster_names(values: Iterable[str], flag: str = "--clusters") -> tuple[str, ...]:
    """Return cluster names as they were given; `click.UsageError` when there is none, or one can be no cluster's."""
    from watchword.api.cluster import validate_cluster_name

    names = split(values)
    if not names:
        raise click.UsageError(f"name the cluster: {flag} NAME")
    for name in names:
        objection = validate_cluster_name(name)
        if objection:
            raise click.BadParameter(objection, param_hint=flag)
    return names


def cluster_name(value: str) -> str:
    """Return the one name given to `--cluster-name`; `click.UsageError` when it is none, several, or no name."""
    names = cluster_names([value], "--cluster-name")
    if len(names) > 1:
        raise click.UsageError("--cluster-name is one name")
    return names[0]


DRY_RUN = "Validate on the server without changing anything."


def change_options(dry_run: str = DRY_RUN, *, asks: bool = False) -> Callable[[F], F]:
    """Add `--dry-run` and `--yes` to a command that changes something.

    It gets `dry_run`, and `yes` if it asks; for others `--yes` is accepted, so that scripts can always give it.
    """

    def decorate(command: F) -> F:
        @flag("--dry-run", help=dry_run)
        @flag("--yes", "-y", help="Do not ask for confirmation." if asks else "No effect: this command never asks.")
        @wraps(command)
        def with_changes(*args: Any, yes: bool, **kwargs: Any) -> Any:
            return command(*args, **({"yes": yes} if asks else {}), **kwargs)

        return with_changes  # type: ignore[return-value]  # a command stays a command

    return decorate


def clusters_option(what: str) -> Callable[[F], F]:
    """Add `--clusters`, also in the singular; the command gets `clusters`, the values as they were given."""
    return click.option(
        "--clusters", "--cluster", "-c", "clusters", multiple=True, shell_complete=complete_clusters, help=what
    )


def cluster_arguments(verb: str) -> Callable[[F], F]:
    """Let clusters be named as arguments, or by `--clusters`; the command gets `clusters`."""
    return gathered(
        "clusters",
        lambda names, clusters: (*names, *clusters),
        click.argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete_clusters),
        clusters_option(f"Names of the clusters to {verb}, separated by commas; the same as CLUSTER."),
    )


def _one_name(name: str, cluster_name: str) -> str:
    if name and cluster_name and name != cluster_name:
        raise click.UsageError(f"CLUSTER is {name}, and --cluster-name is {cluster_name}: give one of them")
    return name or cluster_name


own_cluster_name = gathered(
    "cluster_name",
    _one_name,
    click.argument("name", metavar="[CLUSTER]", default=""),
    text("--cluster-name", "--cluster", "cluster_name", help="Name of this cluster on the hub; the same as CLUSTER."),
)
"""Lets the one cluster be named as `--cluster-name` or as an argument; the command gets `cluster_name`."""


def confirm(question: str, warning: str, *, yes: bool, needs_terminal: bool = True) -> None:
    """Ask on a terminal; elsewhere `--yes` is needed. `OperationRefused` when the answer is no.

    Commands that scripts have always run without asking pass `needs_terminal=False`: they ask on a terminal only.
    """
    if yes or not (needs_terminal or sys.stdin.isatty()):
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning}: give --yes")
    if not click.confirm(question, err=True):  # standard output belongs to the result
        raise OperationRefused("not confirmed, and nothing was changed")


if TYPE_CHECKING:
    from watchword.local.data_directory import FleetDirectory


def fleet_directory_of(data_dir: Path | None) -> FleetDirectory:
    from watchword.local.data_directory import FleetDirectory, default_data_directory

    return FleetDirectory((data_dir or default_data_directory()).absolute())


data_directory_option = gathered(
    "folder",
    fleet_directory_of,
    folder_option("--data-dir", help="Data directory of the fleet; by default that of `up`."),
)
"""Adds the option; the command gets `folder`, a `FleetDirectory`."""
