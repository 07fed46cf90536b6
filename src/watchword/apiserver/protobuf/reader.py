"""Whole messages: walked along the tables of the built-in kinds."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from watchword.api.meta import Object
from watchword.apiserver.kinds.fields import Field, Messages
from watchword.apiserver.kinds.typed import SCHEMA
from watchword.apiserver.protobuf.values import read_scalar, text
from watchword.apiserver.protobuf.wire import LENGTH, VARINT, Malformed, Value, read_fields, signed

MAX_DEPTH = 100
_PACKED = frozenset({"int32", "int64", "bool"})


class MessageReader(Struct, frozen=True):
    """Reads messages into objects; fields that no table knows are skipped."""

    messages: Messages

    def read(self, name: str, data: bytes, depth: int = 0) -> Object:
        """Return the message as JSON shows it; raises Malformed."""
        if depth > MAX_DEPTH:
            raise Malformed(f"messages are nested deeper than {MAX_DEPTH} levels")
        found: Object = {}
        fields = self.messages[name].by_number
        for number, wire, value in read_fields(data):
            each = fields.get(number)
            if each is not None:
                self._place(found, each, wire, value, depth)
        return found

    def _place(self, found: Object, each: Field, wire: int, value: Value, depth: int) -> None:
        if each.inline:
            found.update(self._one(each.type, wire, value, depth))
        elif each.shape == "map":
            key, item = self._entry(each.type, wire, value, depth)
            found.setdefault(each.name, {})[key] = item
        elif each.shape == "list" and each.type in _PACKED and isinstance(value, bytes):
            found.setdefault(each.name, []).extend(_packed(each.type, value))
        elif each.shape == "list":
            found.setdefault(each.name, []).append(self._one(each.type, wire, value, depth))
        else:
            found[each.name] = self._one(each.type, wire, value, depth)

    def _one(self, kind: str, wire: int, value: Value, depth: int) -> Any:
        if kind in _UNIONS:
            return self._union(kind, _delimited(wire, value), depth + 1)
        if "." in kind:
            return self.read(kind, _delimited(wire, value), depth + 1)
        return read_scalar(kind, wire, value)

    def _entry(self, kind: str, wire: int, value: Value, depth: int) -> tuple[str, Any]:
        key = ""
        # An absent value is the empty one: no bytes, no text, a message without fields.
        item: Any = None
        for number, inner_wire, inner in read_fields(_delimited(wire, value)):
            if number == 1:
                key = text(_delimited(inner_wire, inner))
            elif number == 2:
                item = self._one(kind, inner_wire, inner, depth + 1)
        return key, self._one(kind, LENGTH, b"", depth + 1) if item is None else item

    def _union(self, kind: str, data: bytes, depth: int) -> Any:
        allows, schema, items = False, None, list[Any]()
        for number, wire, value in read_fields(data):
            if kind == "schemaOrBool" and number == 1 and wire == VARINT:
                allows = bool(value)
            elif number == (2 if kind == "schemaOrBool" else 1):
                schema = self.read(SCHEMA, _delimited(wire, value), depth + 1)
            elif kind == "schemaOrArray" and number == 2:
                items.append(self.read(SCHEMA, _delimited(wire, value), depth + 1))
            elif kind == "schemaOrStrings" and number == 2:
                items.append(text(_delimited(wire, value)))
        if schema is not None:
            return schema
        return allows if kind == "schemaOrBool" else items


_UNIONS = frozenset({"schemaOrArray", "schemaOrBool", "schemaOrStrings"})


def _delimited(wire: int, value: Value) -> bytes:
    if wire != LENGTH or not isinstance(value, bytes):
        raise Malformed(f"wire type {wire} does not fit a message")
    return value


def _packed(kind: str, data: bytes) -> list[Any]:
    found, value, shift = list[Any](), 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise Malformed("a number is longer than 64 bits")
        if byte < 0x80:
            found.append(bool(value) if kind == "bool" else signed(value, 32 if kind == "int32" else 64))
            value = shift = 0
    if shift:
        raise Malformed("the message ends in the middle of a number")
    return found
