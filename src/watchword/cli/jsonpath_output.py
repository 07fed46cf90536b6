"""`-o jsonpath=TEMPLATE`: text with paths in braces, as kubectl fills it in."""

from __future__ import annotations

import re
from typing import Any

import click

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
