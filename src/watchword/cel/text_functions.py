"""What CEL computes with texts and lists beyond the language itself."""

import re
from functools import reduce
from itertools import pairwise
from typing import Any, Final

from watchword.api.json import show
from watchword.cel.functions import OPERATORS, CelError, Function, bounded, equal, no_overload, typed
from watchword.cel.re2_patterns import compile_searching_pattern


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit in (0, 1):
        return [text][:limit]
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old)
    bounded(len(text) + (count if limit < 0 else min(count, limit)) * len(new))
    return text.replace(old, new, limit)


def _join(items: list[Any], separator: str = "") -> str:
    if any(type(item) is not str for item in items):
        no_overload()
    bounded(sum(map(len, items)) + len(items) * len(separator))
    return separator.join(items)


def _index_of(target: Any, part: Any, *offset: int) -> int:
    if type(target) is list and not offset:
        return next((index for index, item in enumerate(target) if equal(item, part)), -1)
    begin = _offset(target, part, offset, 0)
    return int(target.find(part, begin))


def _last_index_of(target: Any, part: Any, *offset: int) -> int:
    if type(target) is list and not offset:
        return max((index for index, item in enumerate(target) if equal(item, part)), default=-1)
    begin = _offset(target, part, offset, len(target) if type(target) is str else 0)
    return int(target.rfind(part, 0, begin + len(part)))


def _offset(target: Any, part: Any, offset: tuple[int, ...], default: int) -> int:
    begin = offset[0] if offset else default
    if type(target) is not str or type(part) is not str or type(begin) is not int:
        no_overload()
    if not 0 <= begin <= len(target):
        raise CelError(f"index out of range: {begin}")
    return begin


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        compiled = compile_searching_pattern(pattern)
    except re.error as error:
        raise CelError(f"error parsing regexp: {error}") from error
    found: list[str] = []
    for match in compiled.finditer(text):
        if 0 <= limit <= len(found):
            break
        found.append(match.group())
    return found


def _format(text: str, values: list[Any]) -> str:
    given = iter(values)

    def fill(mark: re.Match[str]) -> str:
        if mark[0] == "%%":
            return "%"
        value = next(given, None)
        if value is None:
            raise CelError("index out of range: too few arguments for format")
        return _formatted(value, mark["precision"], mark["verb"])

    filled = _VERB.sub(fill, text)
    bounded(len(filled))
    return filled


_VERB = re.compile(r"%%|%(?:\.(?P<precision>\d{1,3}))?(?P<verb>.)", re.DOTALL)


def _formatted(value: Any, precision: str | None, verb: str) -> str:
    kind = type(value)
    if verb == "s":
        return value if kind is str else show(value)
    if verb == "d" and kind is int:
        return str(value)
    if verb in ("f", "e") and kind in (int, float):
        return f"{value:.{precision or 6}{verb}}"
    if verb in ("b", "o", "x", "X") and kind in (int, bool):
        return f"{int(value):{verb}}"
    return no_overload()


def _is_sorted(items: list[Any]) -> bool:
    return all(OPERATORS["<="](one, other) for one, other in pairwise(items))


def _smallest(name: str, comparison: str) -> Function:
    def choose(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda one, other: one if OPERATORS[comparison](one, other) else other, items)

    return choose


def _contains_all(one: list[Any], other: list[Any]) -> bool:
    return all(any(equal(item, each) for each in one) for item in other)


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("sets.contains", 2): typed(_contains_all, list, list),
    ("sets.equivalent", 2): typed(lambda a, b: _contains_all(a, b) and _contains_all(b, a), list, list),
    ("sets.intersects", 2): typed(lambda a, b: any(_contains_all(b, [item]) for item in a), list, list),
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    ("split", 2): typed(_split, str, str),
    ("split", 3): typed(_split, str, str, int),
    ("substring", 2): typed(_substring, str, int),
    ("substring", 3): typed(_substring, str, int, int),
    ("replace", 3): typed(_replace, str, str, str),
    ("replace", 4): typed(_replace, str, str, str, int),
    ("join", 1): typed(_join, list),
    ("join", 2): typed(_join, list, str),
    ("indexOf", 2): _index_of,
    ("indexOf", 3): _index_of,
    ("lastIndexOf", 2): _last_index_of,
    ("lastIndexOf", 3): _last_index_of,
    ("charAt", 2): typed(_char_at, str, int),
    ("format", 2): typed(_format, str, list),
    ("find", 2): typed(lambda text, pattern: next(iter(_find_all(text, pattern, 1)), ""), str, str),
    ("findAll", 2): typed(_find_all, str, str),
    ("findAll", 3): typed(_find_all, str, str, int),
    ("isSorted", 1): typed(_is_sorted, list),
    ("sum", 1): typed(lambda items: reduce(OPERATORS["+"], items) if items else 0, list),
    ("min", 1): typed(_smallest("min", "<="), list),
    ("max", 1): typed(_smallest("max", ">="), list),
}
