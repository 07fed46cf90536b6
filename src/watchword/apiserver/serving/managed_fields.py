"""Updates managedFields after a create, an update or a patch: a writer of a field becomes its manager."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving import fieldset

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

    removed: fieldset.FieldSet
    changed: fieldset.FieldSet  # added or modified


def compare(old: Object, new: Object, schema: Schema, reset: frozenset[str] = frozenset()) -> Comparison:
    """Compare two states; top-level fields in `reset` are left out."""
    skip = UNTRACKED | reset
    return _maps(tracked(old, skip), tracked(new, skip), schema)


def tracked(obj: Object, skip: frozenset[str]) -> Object:
    """Return the object without fields that have no manager; metadata stays even when empty."""
    kept = {key: value for key, value in obj.items() if key not in skip}
    if "metadata" not in skip:
        metadata = obj.get("metadata") or {}
        kept["metadata"] = {key: value for key, value in metadata.items() if key not in UNTRACKED_METADATA}
    return kept


def whole(value: Any, schema: Schema) -> fieldset.FieldSet:
    """Return the node of a value with everything below it as members."""
    if not value or (type(value) is not dict and type(value) is not list):
        return {}
    if fieldset.is_granular_map(value, schema):
        node: fieldset.FieldSet = {".": {}}
        for key, item in value.items():
            # Plain scalars, the bulk of every object, are settled without a call.
            plain = type(item) is str or type(item) is int or type(item) is bool
            node[f"f:{key}"] = {} if plain else whole(item, schema.field(key))
        return node
    if fieldset.is_granular_list(value, schema):
        return {".": {}, **{key: _whole_items(items, schema) for key, items in items_by_element(value, schema).items()}}
    return {}


def items_by_element(value: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """Group the items of a list by their path element; more than one means duplicates."""
    grouped: dict[str, list[Any]] = {}
    for item in value:
        grouped.setdefault(fieldset.item_element(item, schema), []).append(item)
    return grouped


def _whole_items(items: list[Any], schema: Schema) -> fieldset.FieldSet:
    return whole(items[0], schema.item) if len(items) == 1 else {}


def _same(old: Any, new: Any) -> bool:
    return old is new or (bool(old == new) and isinstance(old, bool) is isinstance(new, bool))


def _maps(old: Object, new: Object, schema: Schema) -> Comparison:
    removed: fieldset.FieldSet = {}
    changed: fieldset.FieldSet = {}
    for key, value in new.items():
        if key not in old:
            changed[f"f:{key}"] = whole(value, schema.field(key))
        elif not _same(old[key], value):
            _values(f"f:{key}", old[key], value, schema.field(key), (removed, changed))
    for key, value in old.items():
        if key not in new:
            removed[f"f:{key}"] = whole(value, schema.field(key))
    return Comparison(removed, changed)


def _values(
    element: str, old: Any, new: Any, schema: Schema, found: tuple[fieldset.FieldSet, fieldset.FieldSet]
) -> None:
    """Compare two values that differ; note the differences under their element."""
    removed, changed = found
    is_map = fieldset.is_granular_map(old, schema) or fieldset.is_granular_map(new, schema)
    is_list = fieldset.is_granular_list(old, schema) or fieldset.is_granular_list(new, schema)
    if not (old or new) or not (is_map or is_list):  # null, {} and [] differ, but there is nothing inside
        changed[element] = {}
        return
    if is_map:
        below = _maps(old if type(old) is dict else {}, new if type(new) is dict else {}, schema)
    else:
        below = _lists(old if type(old) is list else [], new if type(new) is list else [], schema)
    # A value that changes its kind is itself changed, besides everything in it.
    replaced = not (old is None or new is None or type(old) is type(new))
    came = fieldset.make_node(below.changed, member=replaced)
    if below.removed:
        removed[element] = below.removed
    if came is not None:
        changed[element] = came


def _lists(old: list[Any], new: list[Any], schema: Schema) -> Comparison:
    removed: fieldset.FieldSet = {}
    changed: fieldset.FieldSet = {}
    before, after = items_by_element(old, schema), items_by_element(new, schema)
    for element, items in after.items():
        past = before.get(element, [])
        if len(items) == len(past) and all(map(_same, past, items)):
            continue
        if len(items) == 1 and len(past) == 1:
            _values(element, past[0], items[0], schema.item, (removed, changed))
            continue
        changed[element] = _whole_items(items, schema)
        if past and not (len(past) > 1 and len(items) > 1):
            removed[element] = _whole_items(past, schema)
    for element, items in before.items():
        if element not in after:
            removed[element] = _whole_items(items, schema)
    return Comparison(removed, changed)


def track_update(  # noqa: PLR0913 - who, when and where are one decision; the caller holds them apart
    old: Object | None,
    new: Object,
    schema: Schema,
    *,
    manager: str,
    api_version: str,
    now: datetime,
    subresource: str = "",
    reset: frozenset[str] = frozenset(),
    empty: Object | None = None,
) -> None:
    """Set `new`'s managedFields: the manager owns what it changed, others lose it.

    Call it with the object as the client meant it, before the server fills in fields of its own.
    `reset` names top-level fields that this endpoint takes from the stored object, such as `status`;
    on the status endpoint only status counts. `empty` is an object of the kind with no
    field set: what a typed kind always writes has no manager. Objects that were never tracked stay untracked.
    """
    identity = fieldset.ManagerIdentity(manager or "unknown", fieldset.UPDATE, api_version, subresource)
    if subresource == "status":
        reset = frozenset({*new, *(old or ())} - {"status"})
    metadata = new.setdefault("metadata", {})
    said = metadata.pop("managedFields", None)
    try:
        managers = _known_managers(old, said, subresource)
        if managers or old is None:
            _take_over(managers, identity, compare(old or empty or {}, new, schema, reset), rfc3339(now))
        entries = fieldset.encode_managers(managers)
    except fieldset.ItemWithoutKey:
        entries = []  # as kube-apiserver: better no owners than wrong ones
    if entries:
        metadata["managedFields"] = entries


def take_fields(
    managers: fieldset.Managers, found: Comparison, *, keep: fieldset.ManagerIdentity | None = None
) -> None:
    """Remove changed and removed fields, in place, from all managers but `keep`; empty managers are removed."""
    for identity, entry in list(managers.items()):
        if identity == keep:
            continue
        fields = fieldset.difference(fieldset.difference(entry.fields, found.changed), found.removed)
        if not fields:
            del managers[identity]
        elif fields is not entry.fields:
            managers[identity] = fieldset.ManagerEntry(fields, entry.api_version, entry.time)


def _take_over(managers: fieldset.Managers, identity: fieldset.ManagerIdentity, found: Comparison, time: str) -> None:
    if not found.changed and not found.removed:
        return
    take_fields(managers, found)
    if found.changed:
        previous = managers.get(identity)
        fields = fieldset.union(found.changed, previous.fields) if previous is not None else found.changed
        managers[identity] = fieldset.ManagerEntry(fields, identity.api_version, time)
        fieldset.cap_updaters(managers)


def _known_managers(old: Object | None, said: Any, subresource: str) -> fieldset.Managers:
    """Return the owners to start from: those that the client wrote, or else the stored ones."""
    stored = ((old or {}).get("metadata") or {}).get("managedFields")
    if subresource or said == stored:
        return fieldset.stored_managers(stored)
    # An empty list, or one empty entry: the client resets all managers.
    return {} if said in ([], [{}]) else fieldset.decode_managers(said) or fieldset.stored_managers(stored)
