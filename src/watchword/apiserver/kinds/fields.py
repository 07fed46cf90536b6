"""Messages and fields of the built-in kinds, read from their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, cast

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CORE = "io.k8s.api.core.v1"

ListType = Literal["atomic", "set", "map"]
PatchStrategy = Literal["", "merge", "replace", "retainKeys", "merge,retainKeys"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, with everything that JSON, Protobuf, OpenAPI and merging need."""

    number: int
    name: str
    type: str  # a scalar word or the full name of a message
    shape: Literal["", "list", "map"] = ""
    pointer: bool = False  # absence differs from zero
    always: bool = False  # written even when empty
    required: bool = False
    list_type: ListType = "atomic"
    list_map_keys: tuple[str, ...] = ()
    atomic: bool = False
    patch_strategy: PatchStrategy = ""
    patch_merge_key: str = ""
    description: str = ""

    @property
    def inline(self) -> bool:
        """Whether the fields of the message stand in the parent's JSON."""
        return self.name == "-"

    @property
    def is_message(self) -> bool:
        """Whether the type is a message of the tables."""
        return "." in self.type


@dataclass(frozen=True)
class Message:
    """One message: its fields in order of their numbers."""

    name: str  # io.k8s.api.core.v1.Secret
    fields: tuple[Field, ...]
    atomic: bool = False
    description: str = ""

    @cached_property
    def by_number(self) -> dict[int, Field]:
        """The fields by their number on the wire."""
        return {each.number: each for each in self.fields}


@dataclass(frozen=True)
class Messages:
    """All messages by full name."""

    by_name: dict[str, Message] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Message:
        return self.by_name[name]

    def json_fields(self, name: str) -> Iterator[Field]:
        """Yield the fields as JSON shows them: inlined messages are opened."""
        for each in self.by_name[name].fields:
            if each.inline:
                yield from self.json_fields(each.type)
            else:
                yield each


def read_tables(tables: Iterable[str]) -> Messages:
    """Return the messages written in the tables; a reference to no message raises KeyError."""
    written = [message for table in tables for message in _messages(table)]
    names = {message.name for message in written}
    return Messages({message.name: _resolve(message, names) for message in written})


def _messages(table: str) -> Iterator[Message]:
    package, head, fields = "", "", list[Field]()
    for line in table.splitlines():
        if line.startswith(" "):
            fields.append(_field(line))
            continue
        if head:
            yield _message(package, head, fields)
        head, fields = line, []
        if line.startswith("package "):
            package, head = line.removeprefix("package "), ""
    if head:
        yield _message(package, head, fields)


def _message(package: str, head: str, fields: list[Field]) -> Message:
    words, _, description = head.partition(" ; ")
    name, *flags = words.split()
    return Message(f"{package}.{name}", tuple(fields), atomic="atomic" in flags, description=description)


def _field(line: str) -> Field:
    words, _, description = line.partition(" ; ")
    number, name, kind, *flags = words.split()
    pointer = kind.startswith("*")
    kind = kind.removeprefix("*")
    shape: Literal["", "list", "map"] = "list" if kind.startswith("[]") else "map" if kind.startswith("{}") else ""
    kind = kind.removeprefix("[]").removeprefix("{}")
    # Go writes a struct even when it is empty, unless told otherwise.
    struct = not shape and not pointer and (kind[0].isupper() or kind in _STRUCTS)
    strategy, merge_key = _merging(flags)
    keys = next((flag.removeprefix("map=") for flag in flags if flag.startswith("map=")), "")
    return Field(
        number=int(number),
        name=name,
        type=kind,
        shape=shape,
        pointer=pointer,
        always="+" in flags or (struct and "omit" not in flags),
        required="!" in flags,
        list_type="map" if keys else "set" if "set" in flags else "atomic",
        list_map_keys=tuple(keys.split(",")) if keys else (),
        atomic="atomic" in flags,
        patch_strategy=strategy,
        patch_merge_key=merge_key,
        description=description,
    )


_STRUCTS = frozenset({"time", "microtime", "quantity", "intstr"})


def _merging(flags: list[str]) -> tuple[PatchStrategy, str]:
    for flag in flags:
        strategy, _, key = flag.partition("=")
        if strategy in ("merge", "retainKeys", "merge+retainKeys"):
            return cast("PatchStrategy", strategy.replace("+", ",")), key
    return "", ""


def _resolve(message: Message, names: set[str]) -> Message:
    package = message.name.rpartition(".")[0]
    return replace(
        message,
        fields=tuple(
            replace(each, type=_full_name(each.type, package, names)) if each.type[0].isupper() else each
            for each in message.fields
        ),
    )


def _full_name(short: str, package: str, names: set[str]) -> str:
    for place in (package, META, CORE):
        if f"{place}.{short}" in names:
            return f"{place}.{short}"
    raise KeyError(f"no table describes {short}, which {package} mentions")
