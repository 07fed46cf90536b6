"""Single values: from the wire to what JSON shows."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from watchword.api.time import rfc3339, rfc3339_micro
from watchword.apiserver.protobuf.wire import FIXED64, LENGTH, VARINT, Malformed, Value, read_fields, signed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_scalar(kind: str, wire: int, value: Value) -> Any:
    """Return a scalar as JSON shows it; raises Malformed."""
    if kind in _VARINTS and wire == VARINT and isinstance(value, int):
        return _VARINTS[kind](value)
    if kind == "double" and wire == FIXED64 and isinstance(value, int):
        return _double(value)
    if kind in _DELIMITED and wire == LENGTH and isinstance(value, bytes):
        return _DELIMITED[kind](value)
    raise Malformed(f"wire type {wire} does not fit a field of type {kind}")


def text(raw: bytes) -> str:
    """Return UTF-8 text; raises Malformed."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed("a text is not UTF-8") from None


def _double(bits: int) -> float | int:
    value: float
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    if not math.isfinite(value):
        raise Malformed("a number is not finite")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _instant(raw: bytes) -> datetime | None:
    seconds = nanos = 0
    for number, _, value in read_fields(raw):
        if number == 1 and isinstance(value, int):
            seconds = signed(value)
        elif number == 2 and isinstance(value, int):
            nanos = signed(value, 32)
    try:
        instant = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise Malformed("an instant is beyond every calendar") from None
    # Go writes its zero time as an instant of the year one.
    return None if instant.year <= 1 else instant


def _time(raw: bytes) -> str | None:
    instant = _instant(raw) if raw else None
    return None if instant is None else rfc3339(instant)


def _micro_time(raw: bytes) -> str | None:
    instant = _instant(raw) if raw else None
    return None if instant is None else rfc3339_micro(instant)


def _quantity(raw: bytes) -> str:
    for number, _, value in read_fields(raw):
        if number == 1 and isinstance(value, bytes):
            return text(value)
    return "0"


def _int_or_string(raw: bytes) -> int | str:
    kind, number_value, text_value = 0, 0, ""
    for number, _, value in read_fields(raw):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2 and isinstance(value, int):
            number_value = signed(value, 32)
        elif number == 3 and isinstance(value, bytes):
            text_value = text(value)
    return text_value if kind == 1 else number_value


def _strings(raw: bytes) -> list[str]:
    return [text(value) for number, _, value in read_fields(raw) if number == 1 and isinstance(value, bytes)]


def _json(raw: bytes) -> Any:
    inner = b"null"
    for number, _, value in read_fields(raw):
        if number == 1 and isinstance(value, bytes):
            inner = value
    try:
        return orjson.loads(inner or b"null")
    except orjson.JSONDecodeError:
        raise Malformed("an embedded value is not JSON") from None


_VARINTS: dict[str, Callable[[int], Any]] = {
    "bool": bool,
    "int32": lambda value: signed(value, 32),
    "int64": signed,
}
_DELIMITED: dict[str, Callable[[bytes], Any]] = {
    "string": text,
    "bytes": _base64,
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "strings": _strings,
    "json": _json,
}
