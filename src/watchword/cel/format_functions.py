"""Named formats of Kubernetes in rules: `format.dns1123Label().validate(self)`."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Final

from msgspec import Struct

from watchword.api.time import parse_any_rfc3339
from watchword.cel.functions import CelError, Function, no_overload
from watchword.cel.network_functions import parse_url
from watchword.cel.optional_values import NONE, OptionalValue


class NamedFormat(Struct, frozen=True):
    """A format: what is wrong with a text, if anything."""

    problems: Callable[[str], Sequence[str]]


def _pattern(pattern: str, longest: int, *, prefix: bool = False) -> NamedFormat:
    compiled = re.compile(pattern, re.ASCII)

    def problems(text: str) -> Sequence[str]:
        if len(text) > longest:
            return [f"must be no more than {longest} characters"]
        # A prefix may end where a whole name may not.
        checked = f"{text}a" if prefix and text.endswith("-") else text
        return [] if compiled.fullmatch(checked) else [f"must match the regular expression {pattern}"]

    return NamedFormat(problems)


def _reader(read: Callable[[str], Any], problem: str) -> NamedFormat:
    def problems(text: str) -> Sequence[str]:
        try:
            return [] if read(text) is not None else [problem]
        except (ValueError, CelError):
            return [problem]

    return NamedFormat(problems)


def _qualified_name(text: str) -> Sequence[str]:
    prefix, slash, name = text.rpartition("/")
    wrong = "/" in prefix or not _NAME.fullmatch(name) or len(name) > 63
    if wrong or (slash and _SUBDOMAIN.problems(prefix)):
        return ["must be a qualified name: an optional DNS subdomain and a slash, then a name of at most 63 characters"]
    return []


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = _pattern(rf"{_LABEL}(?:\.{_LABEL})*", 253)
FORMATS: Final = {
    "dns1123Label": _pattern(_LABEL, 63),
    "dns1123Subdomain": _SUBDOMAIN,
    "dns1035Label": _pattern(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", 63),
    "dns1123LabelPrefix": _pattern(_LABEL, 63, prefix=True),
    "dns1123SubdomainPrefix": _pattern(rf"{_LABEL}(?:\.{_LABEL})*", 253, prefix=True),
    "dns1035LabelPrefix": _pattern(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", 63, prefix=True),
    "qualifiedName": NamedFormat(_qualified_name),
    "labelValue": _pattern(rf"(?:{_NAME.pattern})?", 63),
    "uri": _reader(parse_url, "must be a URI"),
    "uuid": _reader(uuid.UUID, "must be a UUID"),
    "byte": _reader(_base64, "must be base64"),
    "date": _reader(date.fromisoformat, "must be a date as RFC 3339 writes it"),
    "datetime": _reader(parse_any_rfc3339, "must be a time as RFC 3339 writes it"),
}


def _validate(form: Any, text: Any) -> OptionalValue:
    if type(form) is not NamedFormat or type(text) is not str:
        no_overload()
    found = list(form.problems(text))
    return OptionalValue((found,)) if found else NONE


def _named(name: Any) -> OptionalValue:
    if type(name) is not str:
        no_overload()
    return OptionalValue((FORMATS[name],)) if name in FORMATS else NONE


def _constant(form: NamedFormat) -> Function:
    return lambda: form


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    **{(f"format.{name}", 0): _constant(form) for name, form in FORMATS.items()},
    ("format.named", 1): _named,
}
METHODS: Final[dict[tuple[str, int], Function]] = {("validate", 2): _validate}
