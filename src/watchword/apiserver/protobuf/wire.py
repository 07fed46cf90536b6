"""Parses the Protobuf wire format from untrusted bytes."""

from __future__ import annotations

from collections.abc import Iterator

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
    """Read a varint as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
