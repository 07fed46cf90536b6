"""Regular expressions of schemas: written for RE2, run by Python with the same meaning."""

import re
from collections.abc import Callable
from functools import lru_cache
from re import _constants as op  # type: ignore[attr-defined]  # the standard library's own parser, read only
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Protocol

from msgspec import Struct, field

MAX_STATES = 20_000
MAX_CACHED_MOVES = 5_000

Test = Callable[[str], bool]
Condition = Callable[[str, str], bool]
"""Decides from what is on both sides of a place in the text: EDGE, WORD or OTHER."""
EDGE, WORD, OTHER = "edge", "word", "other"


class UnsupportedRegex(re.error):
    """The expression uses what no linear matcher supports, such as back references."""


class _State(Struct):
    """A state of the automaton: consumes a character, or has an empty transition, with or without a condition."""

    test: Test | None = None
    condition: Condition | None = None
    after: list[int] = field(default_factory=list)


class LinearRegex:
    """One compiled expression; `search` returns whether it matches anywhere in a text."""

    def __init__(self, pattern: str) -> None:
        tree = parser.parse(pattern, re.ASCII)
        self._ignore_case = bool(tree.state.flags & re.IGNORECASE)
        self._states: list[_State] = []
        self._accept = self._new()
        self._start = self._sequence(tree, self._accept)
        self._moved = lru_cache(MAX_CACHED_MOVES)(self._move)
        self._entered = lru_cache(MAX_CACHED_MOVES)(self._enter)

    def search(self, text: str) -> bool:
        current, before = frozenset[int](), EDGE
        for char in text:
            after = WORD if char == "_" or (char.isascii() and char.isalnum()) else OTHER
            current = self._entered(current, before, after)
            if self._accept in current:
                return True
            current, before = self._moved(current, char), after
        return self._accept in self._entered(current, before, EDGE)

    def _move(self, current: frozenset[int], char: str) -> frozenset[int]:
        states = self._states
        return frozenset(
            after
            for index in current
            if (test := states[index].test) is not None and test(char)
            for after in states[index].after
        )

    def _enter(self, current: frozenset[int], before: str, after: str) -> frozenset[int]:
        seen: set[int] = set()
        stack = [*current, self._start]
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            state = self._states[index]
            if state.test is None and (state.condition is None or state.condition(before, after)):
                stack.extend(state.after)
        return frozenset(seen)

    def _new(self, **parts: Any) -> int:
        if len(self._states) >= MAX_STATES:
            raise UnsupportedRegex("the expression is too large")
        self._states.append(_State(**parts))
        return len(self._states) - 1

    def _sequence(self, items: Any, after: int) -> int:
        for kind, argument in reversed(list(items)):
            after = self._item(kind, argument, after)
        return after

    def _item(self, kind: Any, argument: Any, after: int) -> int:
        if kind in _REPEATS:
            least, most, item = argument
            return self._repeat(least, most, item, after)
        if kind is op.BRANCH:
            return self._new(after=[self._sequence(choice, after) for choice in argument[1]])
        if kind is op.SUBPATTERN:
            return self._sequence(argument[3], after)
        if kind is op.AT:
            return self._new(condition=_CONDITIONS[argument], after=[after])
        return self._new(test=self._test(kind, argument), after=[after])

    def _repeat(self, least: int, most: int, item: Any, after: int) -> int:
        if most is op.MAXREPEAT:
            loop = self._new()
            self._states[loop].after = [self._sequence(item, loop), after]
            entry = loop
        else:
            entry = after
            for _ in range(most - least):
                entry = self._new(after=[self._sequence(item, entry), after])
        for _ in range(least):
            entry = self._sequence(item, entry)
        return entry

    def _test(self, kind: Any, argument: Any) -> Test:
        test = _character_test(kind, argument)
        if not self._ignore_case:
            return test
        negated = kind is op.NOT_LITERAL or (kind is op.IN and argument[0][0] is op.NEGATE)
        decide = all if negated else any
        # A letter whose other case is several characters, such as ß, has none that a test could match.
        return lambda char: decide(test(form) for form in (char, char.lower(), char.upper()) if len(form) == 1)


def _character_test(kind: Any, argument: Any) -> Test:
    if kind is op.ANY:
        return lambda char: char != "\n"
    if kind is op.NOT_LITERAL:
        return _class_test([(op.NEGATE, None), (op.LITERAL, argument)])
    return _class_test(argument if kind is op.IN else [(kind, argument)])


def _class_test(members: Any) -> Test:
    negated = members[0][0] is op.NEGATE
    tests = [_member_test(kind, argument) for kind, argument in members[1 if negated else 0 :]]
    return lambda char: any(test(char) for test in tests) is not negated


def _member_test(kind: Any, argument: Any) -> Test:
    if kind is op.LITERAL:
        return lambda char: ord(char) == argument
    if kind is op.RANGE:
        low, high = argument
        return lambda char: low <= ord(char) <= high
    if kind is op.CATEGORY:
        matcher = re.compile(_CATEGORIES[argument], re.ASCII)
        return lambda char: matcher.match(char) is not None
    raise UnsupportedRegex(f"{str(kind).lower()} is not supported")


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _at_beginning(before: str, _: str) -> bool:
    return before == EDGE


def _at_end(_: str, after: str) -> bool:
    return after == EDGE


_CONDITIONS: dict[Any, Condition] = {
    op.AT_BEGINNING: _at_beginning,
    op.AT_BEGINNING_STRING: _at_beginning,
    op.AT_END: _at_end,
    op.AT_END_STRING: _at_end,
    op.AT_BOUNDARY: lambda before, after: (before == WORD) is not (after == WORD),
    op.AT_NON_BOUNDARY: lambda before, after: (before == WORD) is (after == WORD),
}


def is_backtracking_safe(pattern: str) -> bool:
    """Whether Python's matcher is linear, too: no unbounded repetition next to or inside another."""
    return _count_unbounded_repeats(parser.parse(pattern, re.ASCII)) <= 1


def _count_unbounded_repeats(items: Any) -> int:
    """Count unbounded repetitions; one that repeats alternatives counts for several."""
    total = 0
    for kind, argument in items:
        if kind in _REPEATS:
            most, inner = argument[1], argument[2]
            if most is op.MAXREPEAT or most > _MAX_BOUNDED_REPEAT:
                total += 3 if _has_choices(inner) else 1
            else:
                total += _count_unbounded_repeats(inner) * most
        elif kind is op.SUBPATTERN:
            total += _count_unbounded_repeats(argument[3])
        elif kind is op.BRANCH:
            total += max(map(_count_unbounded_repeats, argument[1]))
    return total


def _has_choices(items: Any) -> bool:
    return any(
        kind is op.BRANCH or kind in _REPEATS or (kind is op.SUBPATTERN and _has_choices(argument[3]))
        for kind, argument in items
    )


_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
_MAX_BOUNDED_REPEAT = 64


_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\$", re.DOTALL)
_RESERVED = re.compile(r"\\.|\[|&&|~~|\|\|", re.DOTALL)
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


class Pattern(Protocol):
    """Matches a text."""

    def search(self, text: str, /) -> object: ...


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern; raises re.error when it is invalid, or when RE2 does not support it."""
    translated = _PIECES.sub(_translate, pattern)
    try:
        linear = LinearRegex(translated)  # also refuses what RE2 refuses: back references and lookaround
        if not is_backtracking_safe(translated):
            return linear
        # ASCII, as RE2's \d, \w, \s and \b.
        return re.compile(translated, re.ASCII)
    except (RecursionError, OverflowError) as error:
        raise re.error(str(error)) from error


def compile_searching_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that finds where it matches; raises re.error also when that could take too long."""
    compiled = compile_pattern(pattern)
    if not isinstance(compiled, re.Pattern):
        raise re.error("the expression has too many repetitions to find matches: simplify it")
    return compiled


def is_pattern(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except re.error:
        return False
    return True


def _translate(piece: re.Match[str]) -> str:
    text = piece.group()
    if text in {"$", r"\z"}:
        return r"\Z"  # Python's $ would match before a trailing newline
    if text[0] == "[":
        inner = re.sub(r"\[:(\w+):\]", lambda name: _POSIX_CLASSES.get(name.group(1), name.group()), text[1:-1])
        # Python reserves these signs in classes for operations on sets, and warns.
        return f"[{re.sub(_RESERVED, lambda sign: _escape_last(sign.group()), inner)}]"
    return text


def _escape_last(signs: str) -> str:
    return signs if signs[0] == "\\" else f"{signs[:-1]}\\{signs[-1]}"
