"""What one write changed: the fields that came, went or got another value."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from watchword.api.meta import Object
from watchword.apiserver.fieldmanager.fieldset import FieldSet, make_node
from watchword.apiserver.fieldmanager.shape import field_schema, is_granular_list, is_granular_map, item_element
from watchword.apiserver.schema.model import Schema

# Fields that only the server sets have no manager.
UNTRACKED = frozenset(("apiVersion", "kind"))
UNTRACKED_METADATA = frozenset(
    (
        *("name", "namespace", "creationTimestamp", "selfLink", "uid"),
        *("clusterName", "generation", "managedFields", "resourceVersion"),
    )
)


class Comparison(Struct, frozen=True):
    """The fields that differ between two states of an object."""

    removed: FieldSet
    changed: FieldSet  # added or modified


def compare(old: Object, new: Object, schema: Schema, reset: frozenset[str] = frozenset()) -> Comparison:
    """Compare two states; top-level fields in `reset` are left out."""
    skip = UNTRACKED | reset
    return _maps(tracked(old, skip), tracked(new, skip), schema)


def all_fields(obj: Object, schema: Schema, reset: frozenset[str] = frozenset()) -> FieldSet:
    """Return every field of an object, as if it had just appeared."""
    fields: FieldSet = {}
    for key, value in obj.items():
        if key == "metadata":
            meta_schema = field_schema(schema, key)
            metadata = {
                f"f:{name}": whole(item, field_schema(meta_schema, name))
                for name, item in value.items()
                if name not in UNTRACKED_METADATA
            }
            if metadata and key not in reset:
                fields["f:metadata"] = metadata
        elif key not in UNTRACKED and key not in reset:
            fields[f"f:{key}"] = whole(value, field_schema(schema, key))
    return fields


def tracked(obj: Object, skip: frozenset[str]) -> Object:
    """Return the object without fields that have no manager; metadata stays even when empty."""
    kept = {key: value for key, value in obj.items() if key not in skip}
    if "metadata" not in skip:
        metadata = obj.get("metadata") or {}
        kept["metadata"] = {key: value for key, value in metadata.items() if key not in UNTRACKED_METADATA}
    return kept


def whole(value: Any, schema: Schema | None) -> FieldSet:
    """Return the node of a value with everything below it as members."""
    if not value or (type(value) is not dict and type(value) is not list):
        return {}
    if is_granular_map(value, schema):
        node: FieldSet = {".": {}}
        for key, item in value.items():
            # Plain scalars, the bulk of every object, are settled without a call.
            plain = type(item) is str or type(item) is int or type(item) is bool
            node[f"f:{key}"] = {} if plain else whole(item, field_schema(schema, key))
        return node
    if is_granular_list(value, schema):
        assert schema is not None
        return {".": {}, **{key: _whole_items(items, schema) for key, items in items_by_element(value, schema).items()}}
    return {}


def items_by_element(value: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """Group the items of a list by their path element; more than one means duplicates."""
    grouped: dict[str, list[Any]] = {}
    for item in value:
        grouped.setdefault(item_element(item, schema), []).append(item)
    return grouped


def _whole_items(items: list[Any], schema: Schema) -> FieldSet:
    return whole(items[0], schema.items) if len(items) == 1 else {}


def _same(old: Any, new: Any) -> bool:
    return old is new or (bool(old == new) and isinstance(old, bool) is isinstance(new, bool))


def _maps(old: Object, new: Object, schema: Schema | None) -> Comparison:
    removed: FieldSet = {}
    changed: FieldSet = {}
    for key, value in new.items():
        if key not in old:
            changed[f"f:{key}"] = whole(value, field_schema(schema, key))
        elif not _same(old[key], value):
            _values(f"f:{key}", old[key], value, field_schema(schema, key), (removed, changed))
    for key, value in old.items():
        if key not in new:
            removed[f"f:{key}"] = whole(value, field_schema(schema, key))
    return Comparison(removed, changed)


def _values(element: str, old: Any, new: Any, schema: Schema | None, found: tuple[FieldSet, FieldSet]) -> None:
    """Compare two values that differ; note the differences under their element."""
    removed, changed = found
    below = _below(old, new, schema)
    if below is None:
        changed[element] = {}
        return
    # A value that changes its kind is itself changed, besides everything in it.
    replaced = not _alike(old, new)
    went = make_node(below.removed, member=False)
    came = make_node(below.changed, member=replaced)
    if went is not None:
        removed[element] = went
    if came is not None:
        changed[element] = came


def _alike(old: Any, new: Any) -> bool:
    return old is None or new is None or type(old) is type(new)


def _below(old: Any, new: Any, schema: Schema | None) -> Comparison | None:
    if not old and not new:
        return None  # null, {} and [] differ, but there is nothing inside
    if is_granular_map(old, schema) or is_granular_map(new, schema):
        return _maps(old if type(old) is dict else {}, new if type(new) is dict else {}, schema)
    if is_granular_list(old, schema) or is_granular_list(new, schema):
        assert schema is not None
        return _lists(old if type(old) is list else [], new if type(new) is list else [], schema)
    return None


def _lists(old: list[Any], new: list[Any], schema: Schema) -> Comparison:
    removed: FieldSet = {}
    changed: FieldSet = {}
    before, after = items_by_element(old, schema), items_by_element(new, schema)
    for element, items in after.items():
        past = before.get(element, [])
        if len(items) == len(past) and all(map(_same, past, items)):
            continue
        if len(items) == 1 and len(past) == 1:
            _values(element, past[0], items[0], schema.items, (removed, changed))
            continue
        changed[element] = _whole_items(items, schema)
        if past and not (len(past) > 1 and len(items) > 1):
            removed[element] = _whole_items(past, schema)
    for element, items in before.items():
        if element not in after:
            removed[element] = _whole_items(items, schema)
    return Comparison(removed, changed)
