"""The part of JSONPath that printer columns use: fields, indexes, wildcards and one comparison."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Step = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""
      \.(?P<field>(?:\\.|[^.\[\]\\ ])+)
    | \[\s*'(?P<quoted>(?:\\.|[^'\\])*)'\s*\]
    | \[\s*"(?P<double>(?:\\.|[^"\\])*)"\s*\]
    | \[\s*(?P<index>-?\d{1,9})\s*\]
    | (?P<every>\[\s*\*\s*\])
    | \[\?\(\s*@(?P<left>[^=!<>()]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>[^()]*?))?\s*\)\]
    """,
    re.VERBOSE,
)
_LONGEST = 1024


class BadPath(ValueError):
    """The text is no path of the kind understood here."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path into an object; `find` returns every value it leads to."""

    steps: tuple[Step, ...]

    def find(self, obj: Any) -> list[Any]:
        """Return the values at the path, none when it leads nowhere."""
        found = [obj]
        for step in self.steps:
            found = [below for value in found for below in step(value)]
        return found


def parse_path(text: str) -> JsonPath:
    """Read a path such as `.status.conditions[?(@.type=="Ready")].status`; raises BadPath."""
    text = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if not text or len(text) > _LONGEST:
        raise BadPath("a path starts with a dot and a field")
    steps, position = list[Step](), 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadPath(f"cannot read the path from {text[position:]!r}")
        steps.append(_step(match))
        position = match.end()
    return JsonPath(tuple(steps))


def _step(match: re.Match[str]) -> Step:
    for name in ("field", "quoted", "double"):
        if match[name] is not None:
            key = re.sub(r"\\(.)", r"\1", match[name])
            return _every if key == "*" and name == "field" else _field(key)
    if match["index"] is not None:
        return _index(int(match["index"]))
    if match["every"] is not None:
        return _every
    return _filter(match["left"], match["operator"], match["right"])


def _field(key: str) -> Step:
    return lambda value: [value[key]] if isinstance(value, dict) and key in value else []


def _index(position: int) -> Step:
    return lambda value: value[position : position + 1 or None] if isinstance(value, list) else []


def _every(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _filter(left: str, operator: str | None, right: str | None) -> Step:
    path = parse_path(left) if left else JsonPath(())
    wanted = _literal(right or "")

    def holds(item: Any) -> bool:
        found = path.find(item)
        if operator is None:
            return bool(found)
        return bool(found) and _compare(found[0], operator, wanted)

    return lambda value: [item for item in value if holds(item)] if isinstance(value, list) else []


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _compare(found: Any, operator: str, wanted: Any) -> bool:
    if operator in ("==", "!="):
        same = type(found) is type(wanted) and found == wanted
        return same if operator == "==" else not same
    if not isinstance(found, int | float) or not isinstance(wanted, int | float):
        return False
    return {"<": found < wanted, "<=": found <= wanted, ">": found > wanted, ">=": found >= wanted}[operator]
