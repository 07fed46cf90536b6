"""The structural schema of a built-in kind, drawn from its table."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from watchword.apiserver.kinds.fields import META, Field, Messages, read_tables
from watchword.apiserver.kinds.typed import TypedDecoder, zero
from watchword.apiserver.schema.model import Schema

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
    "schemaOrArray": Schema("any", preserve_unknown=True),
    "schemaOrBool": Schema("any", preserve_unknown=True),
    "schemaOrStrings": Schema("any", preserve_unknown=True),
}


class Schemas(Struct, frozen=True):
    """Draws schemas and shares them: a message that contains itself yields a schema that does.

    Walk these schemas along an object, never on their own.
    """

    messages: Messages
    _drawn: dict[str, Schema] = field(default_factory=dict)
    _kinds: dict[str, Schema] = field(default_factory=dict)

    def of_kind(self, message: str) -> Schema:
        """Return the schema of a whole object: apiVersion, kind and the message's fields."""
        schema = self._kinds.get(message)
        if schema is None:
            drawn = self.of_message(message)
            properties = {"apiVersion": Schema("string"), "kind": Schema("string"), **drawn.properties}
            schema = self._kinds[message] = replace(drawn, properties=properties)
        return schema

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
            items = _without_null(inner)
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


def _without_null(schema: Schema) -> Schema:
    return replace(schema, nullable=False) if schema.nullable and schema.type != "any" else schema


OBJECT_META = f"{META}.ObjectMeta"


_TABLES = Path(__file__).with_name("tables")


@cache
def messages() -> Messages:
    return read_tables(each.read_text("utf-8") for each in sorted(_TABLES.glob("*.txt")))


@cache
def schemas() -> Schemas:
    return Schemas(messages())


@cache
def typed() -> TypedDecoder:
    return TypedDecoder(messages())
