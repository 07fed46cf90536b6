"""Merges an applied configuration into the live object; nothing is removed here."""

from typing import Any, Final

from watchword.api.json import copy_json
from watchword.api.meta import Object
from watchword.apiserver.fieldmanager import fieldset
from watchword.apiserver.fieldmanager.update import UNTRACKED, items_by_element, tracked
from watchword.apiserver.schema.model import Schema


def configured_fields(applied: Object, schema: Schema, reset: frozenset[str] = frozenset()) -> fieldset.FieldSet:
    fields = leaves(tracked(applied, UNTRACKED | reset), schema)
    if fields.get("f:metadata") == {}:
        del fields["f:metadata"]
    return fields


def leaves(value: dict[str, Any], schema: Schema | None) -> fieldset.FieldSet:
    """Return the fields of an object: leaves, items of lists, entries of maps; not the structs around them."""
    fields: fieldset.FieldSet = {}
    for key, item in value.items():
        named = schema is not None and key in schema.properties
        node = _node(item, fieldset.field_schema(schema, key), member=not named)
        if node is not None:
            fields[f"f:{key}"] = node
    return fields


def _node(value: Any, schema: Schema | None, *, member: bool) -> fieldset.FieldSet | None:
    if fieldset.is_granular_map(value, schema):
        return fieldset.make_node(leaves(value, schema), member=member or not value)
    if fieldset.is_granular_list(value, schema):
        assert schema is not None
        grouped = items_by_element(value, schema)
        items = {element: _items_node(found, schema) for element, found in grouped.items()}
        return fieldset.make_node(items, member=member)
    return {}


def _items_node(items: list[Any], schema: Schema) -> fieldset.FieldSet:
    # Items that repeat a key are owned together, as one thing.
    node = _node(items[0], schema.items, member=True) if len(items) == 1 else None
    return {} if node is None else node


_ABSENT: Final = object()


def merge(live: Any, applied: Any, schema: Schema | None) -> Any:
    if fieldset.is_granular_map(applied, schema) and (live is None or fieldset.is_granular_map(live, schema)):
        return _merge_maps(live or {}, applied, schema)
    if fieldset.is_granular_list(applied, schema) and (live is None or fieldset.is_granular_list(live, schema)):
        assert schema is not None
        return _merge_lists(live or [], applied, schema)
    # Null leaves the content of a container unchanged; it replaces anything else.
    if applied is None and live and (fieldset.is_granular_map(live, schema) or fieldset.is_granular_list(live, schema)):
        return copy_json(live)
    return copy_json(applied)


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    merged = {key: copy_json(value) for key, value in live.items() if key not in applied}
    for key, value in applied.items():
        merged[key] = merge(live[key], value, fieldset.field_schema(schema, key)) if key in live else copy_json(value)
    return merged


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Merge item by item: applied items in their order, live ones kept near their old neighbours."""
    old = [fieldset.item_element(item, schema) for item in live]
    new = [fieldset.item_element(item, schema) for item in applied]
    before: dict[str, Any] = {}
    for element, item in zip(old, live, strict=True):
        before[element] = None if element in before else item  # duplicates are not merged with
    after = dict(zip(new, applied, strict=True))
    order = _order(old, new)
    return [
        copy_json(live[place])
        if element not in after
        else _merge_item(before.get(element, _ABSENT), after[element], schema)
        for element, place in order
    ]


def _order(old: list[str], new: list[str]) -> list[tuple[str, int]]:
    """Return the elements of the merged list, each with its place in the old one where only that has it."""
    known, wanted = set(old), set(new)
    shared = [element for element in reversed(new) if element in known]
    order: list[tuple[str, int]] = []
    done: set[str] = set()
    left, right = 0, 0
    while left < len(old) or right < len(new):
        mine = old[left] if left < len(old) else None
        if mine is not None and mine not in wanted:
            order.append((mine, left))
            left += 1
            continue
        if mine is not None and right < len(new) and mine != new[right] and shared and mine != shared[-1]:
            left += 1  # it has its place further on, where the applied list puts it
            continue
        if mine in done:
            left += 1
        if right < len(new):
            element = new[right]
            order.append((element, -1))
            done.add(element)
            right += 1
            left += element == mine
            if shared and shared[-1] == element:
                shared.pop()
    return order


def _merge_item(live: Any, applied: Any, schema: Schema) -> Any:
    return copy_json(applied) if live is _ABSENT else merge(live, applied, schema.items)


_GONE: Final = object()


def remove_fields(value: Any, fields: fieldset.FieldSet, schema: Schema | None) -> Any:
    """Return the value without the members of the set; what is left is shared with the input."""
    if not fields:
        return value
    if fieldset.is_granular_map(value, schema):
        kept = {
            key: _kept(item, fields.get(f"f:{key}"), fieldset.field_schema(schema, key)) for key, item in value.items()
        }
        return {key: item for key, item in kept.items() if item is not _GONE}
    if fieldset.is_granular_list(value, schema):
        assert schema is not None
        items = [_kept(item, fields.get(fieldset.item_element(item, schema)), schema.items) for item in value]
        return [item for item in items if item is not _GONE]
    return value


def with_named_fields(fields: fieldset.FieldSet, schema: Schema | None) -> fieldset.FieldSet:
    """Return the set with every named field on the way as a member: owning `spec.a` is owning `spec`."""
    named: fieldset.FieldSet = {}
    for element, node in fields.items():
        if element == ".":
            continue
        kind, name = element[0], element[2:]
        if kind == "f":
            below = fieldset.field_schema(schema, name)
            is_named = schema is not None and name in schema.properties
        else:
            below, is_named = (schema.items if schema is not None and kind == "k" else None), False
        children = with_named_fields(node, below)
        made = fieldset.make_node(children, member=is_named or fieldset.is_member(node))
        if made is not None:
            named[element] = made
    return named


def _kept(item: Any, node: fieldset.FieldSet | None, schema: Schema | None) -> Any:
    if node is None:
        return item
    return _GONE if fieldset.is_member(node) else remove_fields(item, node, schema)
