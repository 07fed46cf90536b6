"""Label and field selectors, as Kubernetes writes and reads them."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from watchword.api.meta import list_at, mapping_at, rows_at

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})


class SelectorError(ValueError):
    """The text is not a selector; the message says where parsing failed."""


class InvalidLabelKey(SelectorError):
    """The key of a requirement is not a valid label key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key!r} is not a label key")
        self.key = key


class InvalidLabelValue(SelectorError):
    """The value of a requirement is not a valid label value."""

    def __init__(self, key: str, value: str) -> None:
        super().__init__(f"{value!r} is not a label value")
        self.key = key
        self.value = value


class Operator(StrEnum):
    """The operator of a requirement."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


class Requirement(Struct, frozen=True):
    """One condition on one label; an absent label satisfies only the negative operators."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if value is None:
            return self.operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
        if self.operator is Operator.IN:
            return value in self.values
        if self.operator is Operator.NOT_IN:
            return value not in self.values
        if self.operator in (Operator.GREATER, Operator.LESS):
            bound = next(iter(self.values))
            if not re.fullmatch(r"[+-]?\d+", value, re.ASCII):
                return False
            return int(value) > int(bound) if self.operator is Operator.GREATER else int(value) < int(bound)
        return self.operator is Operator.EXISTS


class LabelSelector(Struct, frozen=True):
    """All of its requirements together; without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - asked for every change and every watch: half as dear
            if not requirement.matches(labels):
                return False
        return True


class FieldRequirement(Struct, frozen=True):
    """One field that must, or must not, have a value."""

    path: str
    value: str
    negated: bool = False


def parse_label_selector(text: str) -> LabelSelector:
    """Read `a=b,c!=d,e in (f,g),h notin (i),j,!k`; raises `SelectorError`."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while tokens.peek():
        requirements.append(_requirement(tokens))
        if tokens.peek() and tokens.take(",") is None:
            raise SelectorError(f"unable to parse requirement: found '{tokens.peek()}', expected: ',' or end of string")
        if tokens.ended_with_comma():
            raise SelectorError("found '', expected: identifier after ','")
    return LabelSelector(tuple(requirements))


def parse_structured_selector(structure: Mapping[str, Any]) -> LabelSelector:
    """Read the structured form with `matchLabels` and `matchExpressions`; raises `SelectorError`."""
    requirements = [
        _checked(Requirement(key, Operator.IN, frozenset({str(value)})))
        for key, value in sorted(mapping_at(structure, "matchLabels").items())
    ]
    for row in rows_at(structure, "matchExpressions"):
        operator = _STRUCTURED.get(str(row.get("operator")))
        if operator is None:
            raise SelectorError(f"{row.get('operator')!r} is not a valid label selector operator")
        values = frozenset(map(str, list_at(row, "values")))
        requirements.append(_checked(Requirement(str(row.get("key", "")), operator, values)))
    return LabelSelector(tuple(requirements))


def parse_field_selector(text: str) -> tuple[FieldRequirement, ...]:
    r"""Read `a.b=c,d!=e`, with `\` before a comma, an equals sign or a backslash in a value."""
    requirements = []
    for term in re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL):
        found = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = found.groups()
        requirements.append(FieldRequirement(path, _unescape(value), negated=operator == "!="))
    return tuple(requirements)


_STRUCTURED: Mapping[str, Operator] = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


class _Tokens:
    """The tokens of a selector, one at a time."""

    def __init__(self, text: str) -> None:
        self._tokens: Sequence[str] = _TOKEN.findall(text)
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def ended_with_comma(self) -> bool:
        return not self.peek() and self._at > 0 and self._tokens[self._at - 1] == ","

    def take(self, *wanted: str) -> str | None:
        """Consume the next token if it is one of those wanted, or any word when none is given."""
        token = self.peek()
        if token and (token in wanted if wanted else token not in _SYMBOLS):
            self._at += 1
            return token
        return None


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.take("!")
    key = tokens.take()
    if key is None:
        raise SelectorError(f"unable to parse requirement: found '{tokens.peek()}', expected: identifier")
    if absent:
        return _checked(Requirement(key, Operator.DOES_NOT_EXIST))
    if not tokens.peek() or tokens.peek() == ",":
        return _checked(Requirement(key, Operator.EXISTS))
    operator = tokens.take("=", "==", "!=", "in", "notin", ">", "<")
    if operator is None:
        raise SelectorError(
            f"unable to parse requirement: found '{tokens.peek()}', expected: in, notin, =, ==, !=, gt, lt"
        )
    if operator in ("in", "notin"):
        return _checked(Requirement(key, Operator(operator), _value_set(tokens)))
    value = frozenset({tokens.take() or ""})
    kind = {"!=": Operator.NOT_IN, ">": Operator.GREATER, "<": Operator.LESS}.get(operator, Operator.IN)
    return _checked(Requirement(key, kind, value))


def _value_set(tokens: _Tokens) -> frozenset[str]:
    if tokens.take("(") is None:
        raise SelectorError(f"unable to parse requirement: found '{tokens.peek()}', expected: '('")
    if tokens.take(")"):
        return frozenset({""})
    values = {tokens.take() or ""}
    while tokens.take(","):
        values.add(tokens.take() or "")
    if tokens.take(")") is None:
        raise SelectorError(f"unable to parse requirement: found '{tokens.peek()}', expected: ',' or ')'")
    return frozenset(values)


def _checked(requirement: Requirement) -> Requirement:
    prefix, slash, name = requirement.key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise InvalidLabelKey(requirement.key)
    operator, values = requirement.operator, requirement.values
    if operator in (Operator.IN, Operator.NOT_IN) and not values:
        raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
        raise SelectorError("values set must be empty for exists and does not exist")
    if operator in (Operator.GREATER, Operator.LESS) and not all(
        re.fullmatch(r"[+-]?\d+", v, re.ASCII) for v in values
    ):
        shown = next(iter(values))
        raise SelectorError(
            f'unable to parse requirement: values[0]: Invalid value: "{shown}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for value in values:
        if value and not _NAME.fullmatch(value):
            raise InvalidLabelValue(requirement.key, value)
    return requirement


def _unescape(value: str) -> str:
    wrong = re.search(r"(?:^|[^\\])(?:\\\\)*(\\[^\\,=])", value, re.DOTALL)
    if wrong is not None:
        raise SelectorError(f"invalid field selector: invalid escape sequence: {wrong[1]}")
    if not re.fullmatch(r"(?:[^\\=]|\\[\\,=])*", value, re.DOTALL):
        raise SelectorError(f"invalid field selector value: '{value}'")
    return re.sub(r"\\([\\,=])", r"\1", value)
