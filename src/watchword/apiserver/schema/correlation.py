"""Finds the earlier value of a field, where the schema makes it certain which one that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from watchword.api.json import encode_identity
from watchword.apiserver.schema.model import Schema


class _Absent:
    """There is no earlier value; None would be a JSON null."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def old_field(old: Any, schema: Schema, key: str) -> Any:
    """Return the earlier value of a field of an object."""
    if type(old) is not dict or schema.map_type == "atomic":
        return ABSENT
    return old.get(key, ABSENT)


def old_items(old: Any, schema: Schema) -> Callable[[Any], Any] | None:
    """Return how to find the earlier value of a list's item; None when items have no identity."""
    if type(old) is not list or schema.list_type != "map":
        return None
    keys = schema.list_map_keys
    known = {item_key(item, schema): item for item in reversed(old) if type(item) is dict}
    return lambda item: known.get(item_key(item, schema), ABSENT) if type(item) is dict and keys else ABSENT


def item_key(item: dict[str, Any], schema: Schema) -> bytes:
    """Return what identifies an item of a list of type map."""
    defaults = schema.items.properties if schema.items is not None else {}
    return encode_identity(
        [item.get(key, defaults[key].default if key in defaults else None) for key in schema.list_map_keys]
    )
