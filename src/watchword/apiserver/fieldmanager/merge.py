"""Merges an applied configuration into the live object; nothing is removed here."""

from __future__ import annotations

from typing import Any, Final

from watchword.api.json import copy_json
from watchword.apiserver.fieldmanager.shape import (
    field_schema,
    is_granular_list,
    is_granular_map,
    item_element,
)
from watchword.apiserver.schema.model import Schema

_ABSENT: Final = object()


def merge(live: Any, applied: Any, schema: Schema | None) -> Any:
    """Return the live value with the applied one laid over it, sharing nothing with either."""
    if is_granular_map(applied, schema) and (live is None or is_granular_map(live, schema)):
        return _merge_maps(live or {}, applied, schema)
    if is_granular_list(applied, schema) and (live is None or is_granular_list(live, schema)):
        assert schema is not None
        return _merge_lists(live or [], applied, schema)
    # Null leaves the content of a container unchanged; it replaces anything else.
    if applied is None and live and (is_granular_map(live, schema) or is_granular_list(live, schema)):
        return copy_json(live)
    return copy_json(applied)


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    merged = {key: copy_json(value) for key, value in live.items() if key not in applied}
    for key, value in applied.items():
        merged[key] = merge(live[key], value, field_schema(schema, key)) if key in live else copy_json(value)
    return merged


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Merge item by item: applied items in their order, live ones kept near their old neighbours."""
    old = [item_element(item, schema) for item in live]
    new = [item_element(item, schema) for item in applied]
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
