"""Scalar values of typed Kubernetes objects, and the messages about wrong ones."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from watchword.api.time import parse_rfc3339, rfc3339, rfc3339_micro

_INTEGERS = {"int32": 31, "int64": 63}
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_MICRO_TIME = re.compile(r"[^.]*\.\d{6}(?:Z|[+-]\d{2}:\d{2})", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*", re.ASCII)


class TypeMismatch(Exception):
    """A value does not fit its type; `found` names its JSON type when that alone is the reason."""

    def __init__(self, message: str = "", *, found: str = "", wanted: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.found = found
        self.wanted = wanted


def json_type(value: Any) -> str:
    """Name the JSON type of a decoded value."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def coerce_scalar(kind: str, value: Any) -> Any:
    """Return the value as its type stores it; raises TypeMismatch."""
    if kind == "string":
        return value if isinstance(value, str) else _mismatch(value, "string")
    if kind == "bool":
        return value if isinstance(value, bool) else _mismatch(value, "bool")
    if kind in _INTEGERS:
        return _integer(value, kind)
    if kind in ("time", "microtime"):
        return _time(value, micro=kind == "microtime")
    return _OTHERS[kind](value)


def zero(kind: str) -> Any:
    """Return what an absent value that is always written looks like."""
    return {"string": "", "bool": False, "int32": 0, "int64": 0, "quantity": "0", "intstr": 0}.get(kind)


def _mismatch(value: Any, wanted: str) -> Any:
    raise TypeMismatch(found=json_type(value), wanted=wanted)


def _integer(value: Any, kind: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeMismatch(found=json_type(value), wanted=kind)
    bits = _INTEGERS[kind]
    if isinstance(value, float):
        raise TypeMismatch(found=f"number {value:g}", wanted=kind)
    if not -(2**bits) <= value < 2**bits:
        raise TypeMismatch(found=f"number {value}", wanted=kind)
    return value


def _double(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeMismatch(found=json_type(value), wanted="float64")
    return value


def _int_or_string(value: Any) -> int | str:
    return value if isinstance(value, str) else _integer(value, "int32")


def _strings(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeMismatch(found=json_type(value), wanted="[]string")
    return [coerce_scalar("string", item or "") for item in value]


def _quantity(value: Any) -> str:
    from watchword.api.quantity import WRONG_FORMAT, canonical_quantity

    text = value if isinstance(value, str) else repr(value) if json_type(value) == "number" else ""
    canonical = canonical_quantity(text.strip())
    if canonical is None:
        raise TypeMismatch(WRONG_FORMAT)
    return canonical


def _bytes(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeMismatch(found=json_type(value), wanted="[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise TypeMismatch(f"illegal base64 data at input byte {_first_bad_byte(text)}") from None
    return text


def _first_bad_byte(text: str) -> int:
    clean = _BASE64.match(text)
    end = clean.end() if clean else 0
    rest = text[end:].rstrip("=")
    return end if rest else end - end % 4


def _time(value: Any, *, micro: bool) -> str:
    if not isinstance(value, str):
        raise TypeMismatch(found=json_type(value), wanted="string")
    # An object carries the times of its creation and its managers in every write; no time is much longer than these.
    read = _known_time if len(value) <= len(_MICRO_LAYOUT) else _canonical_time
    canonical = read(value, micro=micro)
    if canonical is None:
        raise TypeMismatch(_unparsed(value, _MICRO_LAYOUT if micro else _TIME_LAYOUT))
    return canonical


def _canonical_time(value: str, *, micro: bool) -> str | None:
    instant = parse_rfc3339(value)
    if instant is None or (micro and not _MICRO_TIME.fullmatch(value)):
        return None
    return rfc3339_micro(instant) if micro else rfc3339(instant)


_known_time = lru_cache(maxsize=4096)(_canonical_time)


def _unparsed(value: str, layout: str) -> str:
    """Return where a time deviates from its layout."""
    rest = value
    for piece in re.findall(r"Z07:00|\.000000|\d+|[-T:]", layout):
        pattern = rf"\d{{{len(piece)}}}" if piece.isdigit() else r"\.\d{6}" if piece == ".000000" else re.escape(piece)
        if piece == "Z07:00":
            pattern = r"(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$"
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{piece}"'
        rest = rest[match.end() :]
    return f'parsing time "{value}": day out of range'


_OTHERS: dict[str, Callable[[Any], Any]] = {
    "double": _double,
    "bytes": _bytes,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "strings": _strings,
    "json": lambda value: value,
}
