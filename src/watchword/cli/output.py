"""The one way by which commands print: nothing from a server reaches the terminal as a control sequence."""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from watchword.api.text import escape_text

LAYOUT = "\n\t"  # the characters with which commands lay out their own text


def echo(text: str | bytes, *, err: bool = False, nl: bool = True) -> None:
    """Print a text of one or many lines; bytes, which are a file's content, as they are."""
    click.echo(escape_text(text, keep=LAYOUT) if isinstance(text, str) else text, err=err, nl=nl)


def echo_line(text: str, *, err: bool = False) -> None:
    click.echo(escape_text(text), err=err)


def print_progress(line: str) -> None:
    echo_line(line, err=True)


def echo_table(text: str) -> None:
    """Print what `render_table` returned: its cells are escaped, and it may have colors."""
    click.echo(text, nl=False)


GAP = "   "
INDENT = "  "
EXPLANATIONS = frozenset({"NOTE", "THEN"})  # last columns that go below their row where they do not fit beside it
SHORTENED = frozenset({"DESCRIPTION", "EXTRA GROUPS", "SUBJECT", "USAGES", "REGISTRIES"})  # no name and no state
OPTIONAL = (
    "CPU", "MEMORY", "MAX USES", "EXTRA GROUPS", "REGISTRIES", "USAGES", "ISSUED", "SUBJECT", "EXPIRES", "DESCRIPTION",
    "VERSION", "SET", "DRIVER", "RENEWS IN", "AGE",
)  # fmt: skip
"""Columns that a narrow terminal leaves out, in this order; `-o wide` shows them."""
STATES = frozenset({"HEALTH", "ACCEPTED", "JOINED", "AVAILABLE", "PRESENT", "APPLIED", "CREDENTIAL", "STATE"})
_NARROWEST = 8
_GOOD, _WARN, _BAD = "32", "33", "31"
_COLORS = {
    **dict.fromkeys(("good", "yes", "true", "healthy", "current"), _GOOD),
    **dict.fromkeys(("no", "unknown", "pending", "due", "new", "left", "deleting", "outdated"), _WARN),
    **dict.fromkeys(("false", "denied", "expired", "failing", "overdue", "unreadable", "corrupt", "empty"), _BAD),
}


def render_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None, color: bool = False
) -> str:
    """Return aligned columns; names, states and explanations are whole at any width.

    Where they do not fit, explanations go below their row, texts are shortened, and optional columns are left out.
    """
    table = [headers, *([escape_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(headers))]
    below: list[str] = [""] * len(table)
    if width is not None and _total(widths) > width:
        if headers[-1] in EXPLANATIONS:
            below = ["", *(row[-1] for row in table[1:])]
            table, widths = [row[:-1] for row in table], widths[:-1]
        kept = _choose_columns(table[0], widths, width)
        table, widths = [[row[i] for i in kept] for row in table], [widths[i] for i in kept]
        widths = _shrunk(table[0], widths, width)
    lines: list[str] = []
    for row, note in zip(table, below, strict=True):
        lines.append(_line(row, widths, table[0], color=color))
        lines += _wrapped(note, width) if note not in ("", "-") else []
    return "".join(f"{line}\n" for line in lines)


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, wide: bool = False, heading: bool = True
) -> None:
    """Print a table as wide as the terminal is; `wide`, and a pipe, get every column whole."""
    text = render_table(headers, rows, width=None if wide else terminal_width(), color=has_color())
    echo_table(text if heading else text.partition("\n")[2])


def terminal_width() -> int | None:
    if not sys.stdout.isatty():
        return None
    import shutil  # imports every compression, which agents do not need

    return shutil.get_terminal_size().columns


def has_color() -> bool:
    from watchword.admin.terminal import supports_color

    return supports_color(sys.stdout, os.environ)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(row: Sequence[str], widths: Sequence[int], headers: Sequence[str], *, color: bool) -> str:
    cells = [_cut(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True)]
    if not color:
        return GAP.join(cells).rstrip()
    if row is headers:
        return f"\x1b[1m{GAP.join(cells).rstrip()}\x1b[0m"
    return GAP.join(_painted(cell) if name in STATES else cell for cell, name in zip(cells, headers, strict=True))


def _painted(cell: str) -> str:
    word = re.split(r"[ :]", cell.strip().lower(), maxsplit=1)[0]
    return f"\x1b[{_COLORS[word]}m{cell}\x1b[0m" if word in _COLORS else cell


def _choose_columns(headers: Sequence[str], widths: Sequence[int], width: int) -> list[int]:
    narrow = [min(size, _NARROWEST) if name in SHORTENED else size for name, size in zip(headers, widths, strict=True)]
    kept = list(range(len(headers)))
    for name in OPTIONAL:
        if _total([narrow[i] for i in kept]) <= width:
            break
        kept = [i for i in kept if headers[i] != name]
    return kept


def _shrunk(headers: Sequence[str], widths: Sequence[int], width: int) -> list[int]:
    shrunk = list(widths)
    flexible = [index for index, header in enumerate(headers) if header in SHORTENED]
    while _total(shrunk) > width and any(shrunk[index] > _NARROWEST for index in flexible):
        widest = max(flexible, key=lambda index: shrunk[index])
        shrunk[widest] -= 1
    return shrunk


def _wrapped(note: str, width: int | None) -> list[str]:
    from textwrap import wrap

    return wrap(
        note, width or 80, initial_indent=INDENT, subsequent_indent=INDENT, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


PREFIX = "jsonpath="
HINT = "write a path like {.items[*].metadata.name}"
_PART = re.compile(r"\{([^{}]*)\}")


def fill_template(document: Any, template: str) -> str:
    """Return the template with every `{.path}` replaced by what it leads to; `click.BadParameter` for others."""
    braced = template if "{" in template else f"{{{template}}}"
    if "{" in _PART.sub("", braced):
        raise click.BadParameter(f"a brace of {template} is not closed: {HINT}", param_hint="-o")
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


def join_command_file(path: Path, command: str) -> None:
    """Write a join command, which holds a token, to a private file in a folder that exists."""
    from watchword.kube.files import write_private_file

    write_private_file(path, f"{command}\n".encode())
    echo(f"wrote the join command to {path}", err=True)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end a blocking read at once: the event loop would only cancel its task when the read has ended."""
    if threading.current_thread() is not threading.main_thread():  # no other thread gets signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def confirm(question: str, warning: str, *, yes: bool, needs_terminal: bool = True) -> None:
    """Ask on a terminal; elsewhere `--yes` is needed. `OperationRefused` when the answer is no.

    Commands that scripts have always run without asking pass `needs_terminal=False`: they ask on a terminal only.
    """
    if yes or not (needs_terminal or sys.stdin.isatty()):
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{warning}: give --yes")
    with interruptible():
        is_confirmed = click.confirm(question, err=True)  # standard output belongs to the result
    if not is_confirmed:
        from watchword.admin.errors import OperationRefused

        raise OperationRefused("not confirmed, and nothing was changed")
