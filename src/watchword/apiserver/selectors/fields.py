"""Field selectors: `metadata.name=x,status.phase!=Running`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from watchword.api.meta import Object
from watchword.apiserver.errors import bad_request

FieldGetter = Callable[[Object], str]


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comparison of one field."""

    field: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms that must all hold; without terms everything matches."""

    terms: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def exact(self, field: str) -> str | None:
        """Return the one value the field must have, if the selector pins it."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def matches(self, obj: Object, getters: Mapping[str, FieldGetter]) -> bool:
        """Whether the object satisfies every term; fields must have been checked with `require_known`."""
        return all((_value(obj, term.field, getters) == term.value) is term.equal for term in self.terms)

    def require_known(self, getters: Mapping[str, FieldGetter], *, namespaced: bool) -> None:
        """Refuse with 400 a field by which the kind cannot be selected."""
        for term in self.terms:
            if term.field == "metadata.name" or (term.field == "metadata.namespace" and namespaced):
                continue
            if term.field not in getters:
                raise bad_request(f"field label not supported: {term.field}")


NO_FIELDS = FieldSelector()


def parse_field_selector(text: str) -> FieldSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text:
        return NO_FIELDS
    return FieldSelector(tuple(_term(part, text) for part in _split(text) if part))


def _term(part: str, whole: str) -> FieldTerm:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        position = _find(part, operator)
        if position >= 0:
            return FieldTerm(part[:position].strip(), _unescape(part[position + len(operator) :], whole), equal)
    raise bad_request(f"invalid selector: '{whole}'; can't understand '{part}'")


def _find(part: str, operator: str) -> int:
    position = part.find(operator)
    while position > 0 and part[position - 1] == "\\":
        position = part.find(operator, position + 1)
    return position


def _split(text: str) -> list[str]:
    """Split at commas that no backslash protects."""
    parts: list[str] = []
    current: list[str] = []
    escaped = False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            parts.append("".join(current))
            current = []
            continue
        current.append(char)
    return [*parts, "".join(current)]


def _unescape(value: str, whole: str) -> str:
    out, escaped = [], False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence in {whole}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            out.append(char)
    return "".join(out)


def _value(obj: Object, field: str, getters: Mapping[str, FieldGetter]) -> str:
    if field == "metadata.name":
        return obj["metadata"].get("name") or ""
    if field == "metadata.namespace":
        return obj["metadata"].get("namespace") or ""
    return getters[field](obj)
