"""Label selectors: `app=web,tier in (front,back),!canary`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from watchword.apiserver.errors import bad_request, quote

_TOKEN = re.compile(r"\s*(==|!=|=|!|<|>|,|\(|\)|[^\s=!<>,()]+)")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One requirement on one label."""

    key: str
    operator: str  # in notin exists absent gt lt
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        if not _INTEGER.fullmatch(value):
            return False
        limit = int(next(iter(self.values)))
        return int(value) > limit if self.operator == "gt" else int(value) < limit


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold; without any, everything matches."""

    terms: tuple[LabelTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether every requirement holds."""
        return all(term.holds(labels) for term in self.terms)


EVERYTHING = LabelSelector()


def parse_label_selector(text: str) -> LabelSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text.strip():
        return EVERYTHING
    return LabelSelector(tuple(_Parser(text).terms()))


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def terms(self) -> list[LabelTerm]:
        found = [self._term()]
        while self._peek():
            if self._next() != ",":
                raise _unparsable(f"found '{self._tokens[self._at - 1]}', expected: ',' or 'end of string'")
            found.append(self._term())
        return found

    def _term(self) -> LabelTerm:
        if self._peek() == "!":
            self._next()
            return LabelTerm(_key(self._word("identifier")), "absent")
        key = _key(self._word("!, identifier, or 'end of string'"))
        operator = self._peek()
        if operator in {"", ","}:
            return LabelTerm(key, "exists")
        self._next()
        if operator in {"=", "==", "!="}:
            value = _label_value(key, self._optional_word())
            return LabelTerm(key, "notin" if operator == "!=" else "in", frozenset({value}))
        if operator in {"in", "notin"}:
            return LabelTerm(key, operator, frozenset(_label_value(key, value) for value in self._values()))
        if operator in {"<", ">"}:
            return LabelTerm(key, "gt" if operator == ">" else "lt", frozenset({_integer(self._optional_word())}))
        raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _values(self) -> list[str]:
        if self._next() != "(":
            raise _unparsable(f"found '{self._tokens[self._at - 1] if self._at else ''}' expected: '('")
        values = [self._optional_word()]
        while (word := self._next()) == ",":
            values.append(self._optional_word())
        if word != ")":
            raise _unparsable(f"found '{word}', expected: ',' or ')'")
        return values

    def _word(self, expected: str) -> str:
        word = self._next()
        if not word or word in "=!<>,()" or word in {"==", "!="}:
            raise _unparsable(f"found '{word}', expected: {expected}")
        return word

    def _optional_word(self) -> str:
        word = self._peek()
        if word in {"", ",", ")"}:
            return ""
        return self._word("identifier")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unparsable(f"found '{text[position:]}'")
        tokens.append(found.group(1))
        position = found.end()
    return tokens


def _key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if (
        len(name) > 63
        or not _NAME.fullmatch(name)
        or (slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)))
    ):
        raise _unparsable(f"<nil>: Invalid value: {quote(text)}: {KEY_RULE}")
    return text


def _label_value(key: str, value: str) -> str:
    if len(value) > 63 or not _VALUE.fullmatch(value):
        raise _unparsable(f"values[0][{key}]: Invalid value: {quote(value)}: {VALUE_RULE}")
    return value


def _integer(value: str) -> str:
    if not _INTEGER.fullmatch(value) or len(value) > 18:
        raise _unparsable(f"for 'Gt', 'Lt' operators, the value must be an integer, found {quote(value)}")
    return value


def _unparsable(detail: str) -> Exception:
    return bad_request(f"unable to parse requirement: {detail}")


KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
