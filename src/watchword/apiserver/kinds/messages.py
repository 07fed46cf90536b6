"""Messages, fields and schemas of the built-in kinds, read from the tables beside this module.

One message per unindented line, one field per indented line:

    Message [atomic] [; what it is]
      <protobuf number> <JSON name> <type> [flags] [; what it says]

A type is a scalar (`string`, `int32`, `int64`, `double`, `bool`, `bytes`, `time`, `microtime`,
`quantity`, `intstr`, `strings`, `json`) or a message; `[]` makes a list, `{}` a map with string
keys, `*` marks a value whose zero differs from absence. The name `-` inlines the message.

Flags: `!` required · `+` written even when empty · `omit` left out when empty although a message ·
`map=<keys>` and `set` list types · `merge=<key>`, `merge`, `retainKeys`, `merge+retainKeys=<key>`
strategic merge · `atomic` a map owned as a whole · `=<value>` written when the field is empty.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import orjson
from msgspec import Struct, field

from watchword.apiserver.kinds.schema import Schema

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CORE = "io.k8s.api.core.v1"

ListType = Literal["atomic", "set", "map"]
PatchStrategy = Literal["", "merge", "replace", "retainKeys", "merge,retainKeys"]


class Field(Struct, frozen=True):
    """One field of a message, with everything that JSON, Protobuf, OpenAPI and merging need."""

    number: int
    name: str
    type: str  # a scalar type or the full name of a message
    shape: Literal["", "list", "map"] = ""
    pointer: bool = False  # absence differs from zero
    always: bool = False  # written even when empty
    required: bool = False
    list_type: ListType = "atomic"
    list_map_keys: tuple[str, ...] = ()
    atomic: bool = False
    patch_strategy: PatchStrategy = ""
    patch_merge_key: str = ""
    default: Any = None  # None: there is none
    description: str = ""

    @property
    def inline(self) -> bool:
        return self.name == "-"

    @property
    def is_message(self) -> bool:
        return "." in self.type


class Message(Struct, frozen=True, dict=True):
    """One message: its fields in order of their numbers."""

    name: str  # io.k8s.api.core.v1.Secret
    fields: tuple[Field, ...]
    atomic: bool = False
    description: str = ""

    @cached_property
    def by_number(self) -> dict[int, Field]:
        return {each.number: each for each in self.fields}


class Messages(Struct, frozen=True):
    """All messages by full name; each is parsed on first use."""

    written: Mapping[str, tuple[str, list[str]]]  # the rest of the first line, the lines of the fields
    _read: dict[str, Message] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Message:
        message = self._read.get(name)
        if message is None:
            head, rows = self.written[name]
            message = self._read[name] = _message(name, head, rows, self.written)
        return message

    def json_fields(self, name: str) -> Iterator[Field]:
        """Yield the fields as JSON shows them: inlined messages are opened."""
        for each in self[name].fields:
            if each.inline:
                yield from self.json_fields(each.type)
            else:
                yield each


def read_tables(tables: Iterable[str]) -> Messages:
    """Return the messages written in the tables; to read one that refers to none of them raises KeyError."""
    written: dict[str, tuple[str, list[str]]] = {}
    for line in chain.from_iterable(table.splitlines() for table in tables):
        name, _, rest = line.partition(" ")
        if name == "package":
            package = rest
        elif name:
            rows = list[str]()
            written[f"{package}.{name}"] = (rest, rows)
        else:
            rows.append(line)
    return Messages(written)


def _message(name: str, head: str, rows: list[str], names: Container[str]) -> Message:
    words, _, description = f" {head}".partition(" ; ")
    package = name.rpartition(".")[0]
    fields = tuple(_field(row, package, names) for row in rows)
    return Message(name, fields, atomic="atomic" in words.split(), description=description)


def _field(line: str, package: str, names: Container[str]) -> Field:
    words, _, description = line.partition(" ; ")
    number, name, kind, *flags = words.split()
    pointer = kind.startswith("*")
    kind = kind.removeprefix("*")
    shape: Literal["", "list", "map"] = "list" if kind.startswith("[]") else "map" if kind.startswith("{}") else ""
    kind = kind.removeprefix("[]").removeprefix("{}")
    # Go writes a struct even when it is empty, unless the field is marked otherwise.
    struct = not shape and not pointer and (kind[0].isupper() or kind in _STRUCTS)
    strategy, merge_key = _merging(flags)
    keys, default = (
        next((flag.removeprefix(word) for flag in flags if flag.startswith(word)), "") for word in ("map=", "=")
    )
    return Field(
        number=int(number),
        name=name,
        type=_full_name(kind, package, names) if kind[0].isupper() else kind,
        shape=shape,
        pointer=pointer,
        always="+" in flags or (struct and "omit" not in flags),
        required="!" in flags,
        list_type="map" if keys else "set" if "set" in flags else "atomic",
        list_map_keys=tuple(keys.split(",")) if keys else (),
        atomic="atomic" in flags,
        patch_strategy=strategy,
        patch_merge_key=merge_key,
        default=_value(default),
        description=description,
    )


def _value(text: str) -> Any:
    """Read a default: JSON, or a text that is none."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return text


_STRUCTS = frozenset({"time", "microtime", "quantity", "intstr"})


def _merging(flags: list[str]) -> tuple[PatchStrategy, str]:
    for flag in flags:
        strategy, _, key = flag.partition("=")
        if strategy in ("merge", "retainKeys", "merge+retainKeys"):
            return cast("PatchStrategy", strategy.replace("+", ",")), key
    return "", ""


def _full_name(short: str, package: str, names: Container[str]) -> str:
    for place in (package, META, CORE):
        if f"{place}.{short}" in names:
            return f"{place}.{short}"
    raise KeyError(f"no table describes {short}, which {package} mentions")


UNIONS = ("schemaOrArray", "schemaOrBool", "schemaOrStrings")
SCALARS: dict[str, Schema] = {
    "string": Schema("string"),
    "int32": Schema("integer", constraints={"format": "int32"}),
    "int64": Schema("integer", constraints={"format": "int64"}),
    "double": Schema("number", constraints={"format": "double"}),
    "bool": Schema("boolean"),
    "bytes": Schema("string", constraints={"format": "byte"}),
    "time": Schema("string", nullable=True, constraints={"format": "date-time"}),
    "microtime": Schema("string", nullable=True, constraints={"format": "date-time"}),
    # A quantity may be written as a number; it is stored as text.
    "quantity": Schema("any", constraints={"format": "quantity"}),
    "intstr": Schema("int-or-string"),
    "strings": Schema("array", items=Schema("string")),
    "json": Schema("any", preserve_unknown=True, nullable=True),
    **dict.fromkeys(UNIONS, Schema("any", preserve_unknown=True)),
}


class Schemas(Struct, frozen=True):
    """Draws schemas and shares them: a message that contains itself yields a schema that does.

    Walk these schemas along an object, never on their own.
    """

    messages: Messages
    _drawn: dict[str, Schema] = field(default_factory=dict)

    def of_message(self, name: str) -> Schema:
        if name in self._drawn:
            return self._drawn[name]
        message = self.messages[name]
        properties: dict[str, Schema] = {}
        self._drawn[name] = Schema(
            "object",
            description=message.description,
            properties=properties,
            required=tuple(each.name for each in self.messages.json_fields(name) if each.required),
            map_type="atomic" if message.atomic else "granular",
        )
        for each in self.messages.json_fields(name):
            properties[each.name] = self._of_field(each)
        return self._drawn[name]

    def _of_field(self, each: Field) -> Schema:
        inner = self.of_message(each.type) if each.is_message else SCALARS[each.type]
        if each.shape == "list":
            items = replace(inner, nullable=False) if inner.nullable and inner.type != "any" else inner
            if each.list_map_keys:
                items = self._with_key_defaults(each, items)
            schema = Schema("array", items=items, list_type=each.list_type, list_map_keys=each.list_map_keys)
        elif each.shape == "map":
            schema = Schema("object", additional=inner, map_type="atomic" if each.atomic else "granular")
        else:
            schema = inner
        return replace(
            schema,
            description=each.description,
            patch_strategy=each.patch_strategy,
            patch_merge_key=each.patch_merge_key,
        )

    def _with_key_defaults(self, each: Field, items: Schema) -> Schema:
        """Give the keys of a list's items the values that an item has which does not state them."""
        stated = {key.name: key for key in self.messages.json_fields(each.type)}
        properties = dict(items.properties)
        for name in each.list_map_keys:
            key = stated[name]
            if name == "protocol":
                properties[name] = replace(properties[name], default="TCP", has_default=True)
            elif key.always or each.name == "imagePullSecrets":
                properties[name] = replace(properties[name], default=zero(key.type), has_default=True)
        return replace(items, properties=properties)


OBJECT_META = f"{META}.ObjectMeta"


_TABLES = Path(__file__).with_name("tables")


@cache
def messages() -> Messages:
    return read_tables(each.read_text("utf-8") for each in sorted(_TABLES.glob("*.txt")))


@cache
def schemas() -> Schemas:
    return Schemas(messages())


def zero(kind: str) -> Any:
    """Return what an absent value that is always written looks like."""
    return {"string": "", "bool": False, "int32": 0, "int64": 0, "quantity": "0", "intstr": 0}.get(kind)


@cache
def kind_schema(message: str) -> Schema:
    """Return the schema of a whole object: apiVersion, kind and the message's fields."""
    drawn = schemas().of_message(message)
    return replace(drawn, properties={"apiVersion": Schema("string"), "kind": Schema("string"), **drawn.properties})
