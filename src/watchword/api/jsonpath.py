"""A small safe JSONPath: fields, indexes, wildcards and filters, as printer columns and feedback rules use them."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Location = tuple[str | int, ...]
"""The fields and indexes of the path to one value."""

PathStep = Callable[[Any], Iterator[tuple[str | int, Any]]]
"""Returns the values one level below a value, each with its field or index."""

_STEP = re.compile(
    r"\.(?P<field>(?:\\.|[^.\[\]\\])+)"
    r"|\[\s*'(?P<quoted>(?:\\.|[^'\\])*)'\s*\]"
    r"|\[\s*(?P<index>-?\d{1,9})\s*\]"
    r"|(?P<all>\[\s*\*\s*\]|\.\*)"
    r"|\[\?\(\s*@(?P<left>(?:\.[^.\[\]\s=!<>]+)+)\s*(?P<operator>==|!=|<=|>=|<|>)\s*"
    r"(?P<right>'[^']*'|\"[^\"]*\"|[^\s)]+)\s*\)\s*\]"
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


class JsonPathError(ValueError):
    """The text is not a supported path."""


def find(document: Any, path: str) -> list[Any]:
    """Return the values of a path, empty when there are none; raises JsonPathError."""
    return [value for _, value in _follow(document, _compile(path))]


def locate(document: Any, path: str) -> list[Location]:
    return [location for location, _ in _follow(document, _compile(path))]


def _follow(document: Any, steps: tuple[PathStep, ...]) -> list[tuple[Location, Any]]:
    found: list[tuple[Location, Any]] = [((), document)]
    for step in steps:
        found = [((*location, at), item) for location, value in found for at, item in step(value)]
    return found


@lru_cache(maxsize=1024)
def _compile(path: str) -> tuple[PathStep, ...]:
    if not path.startswith((".", "[")) or len(path) > 1000:
        raise JsonPathError(f"a path begins with a dot: {path[:80]}")
    steps: list[PathStep] = []
    position = 0
    while position < len(path) and path != ".":
        match = _STEP.match(path, position)
        if match is None:
            raise JsonPathError(f"not understood: {path[position : position + 80]}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> PathStep:
    if match["all"] is not None:
        return _everything
    if match["index"] is not None:
        return _at(int(match["index"]))
    if match["left"] is not None:
        return _where(match["left"], match["operator"], _literal(match["right"]))
    name = match["field"] if match["field"] is not None else match["quoted"]
    return _field(re.sub(r"\\(.)", r"\1", name))


def _field(name: str) -> PathStep:
    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        if isinstance(value, dict) and name in value:
            yield name, value[name]

    return step


def _at(index: int) -> PathStep:
    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield index % len(value), value[index]

    return step


def _everything(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from value.items()


def _where(left: str, operator: str, right: Any) -> PathStep:
    compare, inner = _COMPARISONS[operator], _compile(left)

    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        for index, item in enumerate(value) if isinstance(value, list) else ():
            found = _follow(item, inner)
            if found and _holds(compare, found[0][1], right):
                yield index, item

    return step


def _holds(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    try:
        return compare(left, right)
    except TypeError:  # values of different kinds have no order
        return False


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
