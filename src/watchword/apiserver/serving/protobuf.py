"""Protobuf bodies, as typed Go clients send them, read into the same objects as JSON."""

import base64
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import orjson

from watchword.api.meta import Object
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.kinds.messages import META, UNIONS, Field, messages
from watchword.apiserver.kinds.typed import SCHEMA, TypeMismatch, typed
from watchword.apiserver.serving.bodies import load_json, require_shallow
from watchword.apiserver.serving.errors import bad_request

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)
_LONGEST_VARINT = 10


class Malformed(ValueError):
    """The bytes are no Protobuf message."""


Value = int | bytes
"""A varint or fixed-width number, or the bytes of a length-delimited field."""


def read_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield number, wire type and value of each field; raises Malformed."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise Malformed("a field has the number zero")
        value: Value
        if wire == VARINT:
            value, position = _varint(data, position)
        elif wire == LENGTH:
            length, position = _varint(data, position)
            value, position = _take(data, position, length), position + length
        elif wire in (FIXED64, FIXED32):
            width = 8 if wire == FIXED64 else 4
            value, position = int.from_bytes(_take(data, position, width), "little"), position + width
        else:
            # Groups left the format long ago; nothing in Kubernetes writes them.
            raise Malformed(f"wire type {wire} is not understood")
        yield number, wire, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        if position >= len(data):
            raise Malformed("the message ends in the middle of a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise Malformed("a number is longer than 64 bits")


def _take(data: bytes, position: int, length: int) -> bytes:
    if length > len(data) - position:
        raise Malformed("the message ends in the middle of a field")
    return data[position : position + length]


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


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


Member = TypeVar("Member", int, bytes)


def _member(raw: bytes, number: int, absent: Member) -> Member:
    """Return the last value of one field of a message; what has another type than `absent` is skipped."""
    found = [value for each, _, value in read_fields(raw) if each == number and isinstance(value, type(absent))]
    return found[-1] if found else absent


def _delimited_members(raw: bytes) -> dict[int, bytes]:
    """Return the last value of each field that holds bytes."""
    return {number: value for number, _, value in read_fields(raw) if isinstance(value, bytes)}


def _time(raw: bytes, write: Callable[[datetime], str] = rfc3339) -> str | None:
    seconds, nanos = signed(_member(raw, 1, 0)), signed(_member(raw, 2, 0), 32)
    try:
        instant = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise Malformed("an instant is beyond every calendar") from None
    # Go writes its zero time as an instant of the year one.
    return write(instant) if raw and instant.year > 1 else None


def _int_or_string(raw: bytes) -> int | str:
    return text(_member(raw, 3, b"")) if _member(raw, 1, 0) == 1 else signed(_member(raw, 2, 0), 32)


def _strings(raw: bytes) -> list[str]:
    return [text(value) for number, _, value in read_fields(raw) if number == 1 and isinstance(value, bytes)]


def _json(raw: bytes) -> Any:
    try:
        return load_json(_member(raw, 1, b"") or b"null")
    except orjson.JSONDecodeError:
        raise Malformed("an embedded value is not JSON") from None


_VARINTS: dict[str, Callable[[int], Any]] = {"bool": bool, "int32": lambda value: signed(value, 32), "int64": signed}
_DELIMITED: dict[str, Callable[[bytes], Any]] = {
    "string": text,
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "time": _time,
    "microtime": lambda raw: _time(raw, rfc3339_micro),
    "quantity": lambda raw: text(_member(raw, 1, b"0")),
    "intstr": _int_or_string,
    "strings": _strings,
    "json": _json,
}


MAX_DEPTH = 100


def read_message(name: str, data: bytes, depth: int = 0) -> Object:
    """Return a message as an object; fields that no table knows are skipped."""
    if depth > MAX_DEPTH:
        raise Malformed(f"messages are nested deeper than {MAX_DEPTH} levels")
    found: Object = {}
    fields = messages()[name].by_number
    for number, wire, value in read_fields(data):
        each = fields.get(number)
        if each is not None:
            _place(found, each, wire, value, depth)
    return found


def _place(found: Object, each: Field, wire: int, value: Value, depth: int) -> None:
    if each.inline:
        found.update(_one(each.type, wire, value, depth))
    elif each.shape == "map":
        key, item = _entry(each.type, wire, value, depth)
        found.setdefault(each.name, {})[key] = item
    elif each.shape == "list" and each.type in _VARINTS and isinstance(value, bytes):
        found.setdefault(each.name, []).extend(_packed(each.type, value))
    elif each.shape == "list":
        found.setdefault(each.name, []).append(_one(each.type, wire, value, depth))
    else:
        found[each.name] = _one(each.type, wire, value, depth)


def _one(kind: str, wire: int, value: Value, depth: int) -> Any:
    if kind in UNIONS:
        return _union(kind, _delimited(wire, value), depth + 1)
    if "." in kind:
        return read_message(kind, _delimited(wire, value), depth + 1)
    return read_scalar(kind, wire, value)


def _entry(kind: str, wire: int, value: Value, depth: int) -> tuple[str, Any]:
    key = ""
    # An absent value is the empty one: no bytes, no text, a message without fields.
    item: Any = None
    for number, inner_wire, inner in read_fields(_delimited(wire, value)):
        if number == 1:
            key = text(_delimited(inner_wire, inner))
        elif number == 2:
            item = _one(kind, inner_wire, inner, depth + 1)
    return key, _one(kind, LENGTH, b"", depth + 1) if item is None else item


def _union(kind: str, data: bytes, depth: int) -> Any:
    allows, schema, items = False, None, list[Any]()
    for number, wire, value in read_fields(data):
        if kind == "schemaOrBool" and number == 1 and wire == VARINT:
            allows = bool(value)
        elif number == (2 if kind == "schemaOrBool" else 1):
            schema = read_message(SCHEMA, _delimited(wire, value), depth + 1)
        elif kind == "schemaOrArray" and number == 2:
            items.append(read_message(SCHEMA, _delimited(wire, value), depth + 1))
        elif kind == "schemaOrStrings" and number == 2:
            items.append(text(_delimited(wire, value)))
    if schema is not None:
        return schema
    return allows if kind == "schemaOrBool" else items


def _delimited(wire: int, value: Value) -> bytes:
    if wire != LENGTH or not isinstance(value, bytes):
        raise Malformed(f"wire type {wire} does not fit a message")
    return value


def _packed(kind: str, data: bytes) -> list[Any]:
    found, position = list[Any](), 0
    while position < len(data):
        value, position = _varint(data, position)
        found.append(_VARINTS[kind](value))
    return found


MAGIC = b"k8s\x00"
# Options travel under the group they are used in, whatever it is.
_OPTIONS = frozenset({"DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions", "Status"})


def decode(body: bytes) -> Object:
    """Return the object in a Protobuf body; raises a 400 with the reason when it cannot be read."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
    try:
        obj = _unwrap(body[len(MAGIC) :])
    except (Malformed, TypeMismatch) as problem:
        raise bad_request(f"the protobuf body cannot be read: {problem}") from None
    require_shallow(obj)  # JSON inside Protobuf nests on its own account
    return obj


def _unwrap(envelope: bytes) -> Object:
    members = _delimited_members(envelope)
    meta = _delimited_members(members.get(1, b""))
    api_version, kind, raw = text(meta.get(1, b"")), text(meta.get(2, b"")), members.get(2, b"")
    if members.get(3) or members.get(4, b"") not in (b"", b"application/vnd.kubernetes.protobuf"):
        raise Malformed("the envelope holds another encoding")
    name = _message_name(api_version, kind)
    # Go writes every plain field, empty or not: the kind's shape tells zero from absence.
    shaped = typed(has_defaults=False).conform(name, read_message(name, raw))
    return {"apiVersion": api_version, "kind": kind, **shaped}


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    try:
        if kind in _OPTIONS:
            return messages()[f"{META}.{kind}"].name
        return message_of(group, version, kind)
    except KeyError:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}" in protobuf') from None
