"""Regular expressions of schemas: written for RE2, run by Python with the same meaning."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

from watchword.cel.linear_regex import LinearRegex, is_backtracking_safe

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

    def search(self, text: str, /) -> object:
        """Return a true value when the text matches anywhere."""
        ...


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
    """Whether the text is a regular expression that can be enforced."""
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
