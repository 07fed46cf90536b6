"""How a value is divided into fields: which parts are owned one by one and which only as a whole."""

from __future__ import annotations

from typing import Any, TypeGuard

import orjson

from watchword.apiserver.schema.model import Schema


class ItemWithoutKey(Exception):
    """An item of a list has no identity, so its fields cannot be managed; the message contains the reason."""


def is_granular_map(value: Any, schema: Schema | None) -> TypeGuard[dict[str, Any]]:
    """Whether each field of an object is owned by itself; without a schema it is."""
    return type(value) is dict and (schema is None or schema.map_type != "atomic")


def is_granular_list(value: Any, schema: Schema | None) -> TypeGuard[list[Any]]:
    """Whether each item of a list is owned by itself; without a schema a list is one thing."""
    return type(value) is list and schema is not None and schema.list_type != "atomic"


def field_schema(schema: Schema | None, key: str) -> Schema | None:
    """Return the schema of a field; None: owned as its value suggests."""
    return None if schema is None else schema.properties.get(key, schema.additional)


def item_element(item: Any, schema: Schema) -> str:
    """Return the path element of an item of a set or a keyed list."""
    if schema.list_type == "set":
        if item is None or type(item) is dict or type(item) is list:
            raise ItemWithoutKey(_SET_ITEMS[type(item)])
        return f"v:{orjson.dumps(item).decode()}"
    if type(item) is not dict:
        kind = "a null element" if item is None else "non-map elements"
        raise ItemWithoutKey(f"associative list with keys may not have {kind}")
    known = schema.items.properties if schema.items is not None else {}
    keys = {}
    for key in schema.list_map_keys:
        if key in item:
            keys[key] = item[key]
        elif key in known and known[key].has_default:
            keys[key] = known[key].default
    if not keys:
        names = " ".join(f'"{key}"' for key in schema.list_map_keys)
        raise ItemWithoutKey(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()}"


_SET_ITEMS = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}
