"""Server-side apply: a manager declares fields, manages them, and releases those it no longer declares."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.json import copy_json, go_print, same_json
from watchword.api.meta import Object, annotations_of
from watchword.api.time import rfc3339
from watchword.apiserver.kinds.schema import ANYTHING, Schema
from watchword.apiserver.serving import fieldset, managed_fields
from watchword.apiserver.serving.errors import bad_request
from watchword.apiserver.serving.model import ApiError


def configured_fields(applied: Object, schema: Schema, reset: frozenset[str] = frozenset()) -> fieldset.FieldSet:
    fields = leaves(managed_fields.tracked(applied, managed_fields.UNTRACKED | reset), schema)
    if fields.get("f:metadata") == {}:
        del fields["f:metadata"]
    return fields


def leaves(value: dict[str, Any], schema: Schema) -> fieldset.FieldSet:
    """Return the fields of an object: leaves, items of lists, entries of maps; not the structs around them."""
    fields: fieldset.FieldSet = {}
    for key, item in value.items():
        node = _node(item, schema.field(key), member=key not in schema.properties)
        if node is not None:
            fields[f"f:{key}"] = node
    return fields


def _node(value: Any, schema: Schema, *, member: bool) -> fieldset.FieldSet | None:
    if fieldset.is_granular_map(value, schema):
        return fieldset.make_node(leaves(value, schema), member=member or not value)
    if fieldset.is_granular_list(value, schema):
        # Items that repeat a key are owned together, as one thing.
        items = {
            element: _node(found[0], schema.item, member=True) if len(found) == 1 else {}
            for element, found in managed_fields.items_by_element(value, schema).items()
        }
        return fieldset.make_node(items, member=member)
    return {}


def merge(live: Any, applied: Any, schema: Schema) -> Any:
    if fieldset.is_granular_map(applied, schema) and (live is None or fieldset.is_granular_map(live, schema)):
        return _merge_maps(live or {}, applied, schema)
    if fieldset.is_granular_list(applied, schema) and (live is None or fieldset.is_granular_list(live, schema)):
        return _merge_lists(live or [], applied, schema)
    # Null leaves the content of a container unchanged; it replaces anything else.
    if applied is None and live and (fieldset.is_granular_map(live, schema) or fieldset.is_granular_list(live, schema)):
        return copy_json(live)
    return copy_json(applied)


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], schema: Schema) -> dict[str, Any]:
    merged = {key: copy_json(value) for key, value in live.items() if key not in applied}
    for key, value in applied.items():
        merged[key] = merge(live.get(key), value, schema.field(key))
    return merged


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Merge item by item: applied items in their order, live ones kept near their old neighbours."""
    old = [fieldset.item_element(item, schema) for item in live]
    new = [fieldset.item_element(item, schema) for item in applied]
    before: dict[str, Any] = {}
    for element, item in zip(old, live, strict=True):
        before[element] = None if element in before else item  # duplicates are not merged with
    after = dict(zip(new, applied, strict=True))
    return [
        merge(before.get(element), after[element], schema.item) if element in after else copy_json(live[place])
        for element, place in _order(old, new)
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


def remove_fields(value: Any, fields: fieldset.FieldSet, schema: Schema) -> Any:
    """Return the value without the members of the set; what is left is shared with the input."""
    if not fields:
        return value
    if fieldset.is_granular_map(value, schema):
        return {
            key: remove_fields(item, fields.get(f"f:{key}", {}), schema.field(key))
            for key, item in value.items()
            if not _has_member(fields, f"f:{key}")
        }
    if fieldset.is_granular_list(value, schema):
        elements = [fieldset.item_element(item, schema) for item in value]
        return [
            remove_fields(item, fields.get(element, {}), schema.item)
            for element, item in zip(elements, value, strict=True)
            if not _has_member(fields, element)
        ]
    return value


def _has_member(fields: fieldset.FieldSet, element: str) -> bool:
    return element in fields and fieldset.is_member(fields[element])


def with_named_fields(fields: fieldset.FieldSet, schema: Schema) -> fieldset.FieldSet:
    """Return the set with every named field on the way as a member: owning `spec.a` is owning `spec`."""
    named: fieldset.FieldSet = {}
    for element, node in fields.items():
        if element == ".":
            continue
        kind, name = element[0], element[2:]
        below = schema.field(name) if kind == "f" else schema.item if kind == "k" else ANYTHING
        is_named = kind == "f" and name in schema.properties
        made = fieldset.make_node(with_named_fields(node, below), member=is_named or fieldset.is_member(node))
        if made is not None:
            named[element] = made
    return named


Conflict = tuple[fieldset.ManagerIdentity, fieldset.Path]


class ApplyConflict(ApiError):
    """Carries each conflicting field as a cause; `force` takes them all."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": fieldset.print_path(path)}
            for owner, path in conflicts
        ]
        super().__init__(409, "Conflict", _message(conflicts), {"causes": causes})
        self.conflicts = tuple(conflicts)


def _message(conflicts: Sequence[Conflict]) -> str:
    if len(conflicts) == 1:
        ((owner, path),) = conflicts
        return f"Apply failed with 1 conflict: conflict with {owner}: {fieldset.print_path(path)}"
    lines: list[str] = []
    for owner in dict.fromkeys(owner for owner, _ in conflicts):
        lines.append(f"conflicts with {owner}:")
        lines.extend(f"- {fieldset.print_path(path)}" for manager, path in conflicts if manager == owner)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"


def kept_since_last_applied(live: Object, schema: Schema) -> fieldset.FieldSet:
    """Return the fields that client-side apply wrote and that are unchanged since: kubectl may take them over."""
    try:
        remembered = orjson.loads(annotations_of(live).get(LAST_APPLIED) or "null")
    except ValueError:
        return {}
    if not isinstance(remembered, dict) or remembered.get("apiVersion") != live.get("apiVersion"):
        return {}
    try:
        differing = managed_fields.compare(remembered, live, schema)
        fields = configured_fields(remembered, schema)
    except (fieldset.ItemWithoutKey, AttributeError, TypeError):  # the annotation may contain any text
        return {}
    return fieldset.difference(fieldset.difference(fields, differing.changed), differing.removed)


def remember_applied(obj: Object, applied: Object) -> None:
    """Write the applied configuration into the annotation, if the object already has one."""
    if not annotations_of(obj).get(LAST_APPLIED):
        return
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        metadata["annotations"] = {
            key: value for key, value in (metadata["annotations"] or {}).items() if key != LAST_APPLIED
        }
    written = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    obj["metadata"]["annotations"][LAST_APPLIED] = written.decode()


_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "int-or-string": (int, float, str),
}
_NUMERIC = "numeric (int or float)"
_WANTED = {"integer": _NUMERIC, "number": _NUMERIC, "int-or-string": "untyped"}


def check_applied(applied: Object, schema: Schema) -> None:
    """Raise when the configuration has unknown fields, wrong types or items without identity.

    kube-apiserver answers 500 without a reason, and so do we: clients match on it.
    """
    errors = list(_check(applied, schema, ""))
    if not errors:
        return
    metadata = applied.get("metadata") or {}
    group, _, version = str(applied.get("apiVersion")).rpartition("/")
    subject = (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={applied.get('kind')}"
    )
    told = errors[0] if len(errors) == 1 else "\n".join(["errors:", *(f"  {error}" for error in errors)])
    raise ApiError(500, "", f"failed to create typed patch object ({subject}): {told}")


def _check(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    if value is None or schema is None or schema.type == "any":
        return
    if schema.type == "object":
        if type(value) is not dict:
            yield f"{path}: expected map, got {_shown(value)}"
            return
        for key, item in value.items():
            below = schema.properties.get(key, schema.additional)
            if below is None and not schema.preserve_unknown:
                yield f"{path}.{key}: field not declared in schema"
            yield from _check(item, below, f"{path}.{key}")
    elif schema.type == "array":
        if type(value) is not list:
            yield f"{path}: expected list, got {_shown(value)}"
            return
        yield from _check_items(value, schema, path)
    elif type(value) not in _SCALARS[schema.type]:
        wanted = _WANTED.get(schema.type, schema.type)
        yield f"{path}: expected {wanted}, got {_go_type(value) if wanted == _NUMERIC else _shown(value)}"


def _check_items(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        if fieldset.is_granular_list(value, schema):
            try:
                element = fieldset.item_element(item, schema)
            except fieldset.ItemWithoutKey as error:
                yield f"{path}: element {index}: {error}"
                continue
            place = f"{path}{fieldset.print_path((element,))}"
            if element in seen:
                yield f"{path}: duplicate entries for key {fieldset.print_path((element,))}"
                continue
            seen.add(element)
        yield from _check(item, schema.items, place)


def _go_type(value: Any) -> str:
    names: dict[type, str] = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "<nil>")


def _shown(value: Any) -> str:
    scalar = type(value) in (int, float)
    return f"&value.valueUnstructured{{Value:{value!r}}}" if scalar else f"&{{{go_print(value)}}}"


def apply(  # noqa: PLR0913 - the parameters of an apply request
    live: Object | None,
    applied: Object,
    schema: Schema,
    *,
    manager: str,
    force: bool,
    now: datetime,
    subresource: str = "",
    reset: frozenset[str] = frozenset(),
) -> Object:
    """Return the object that results, with its managedFields; neither argument is changed.

    Raises ApplyConflict unless forced, 500 for a configuration that does not fit the schema.
    `reset` and `subresource` mean what they mean in `track_update`.
    """
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    check_applied(applied, schema)
    if subresource == "status":
        reset = frozenset({*applied, *(live or ())} - {"status"})
    identity = fieldset.ManagerIdentity(manager or "unknown", fieldset.APPLY, "", subresource)
    request = _Apply(live or {}, applied, schema, identity, reset)
    try:
        managers = request.owners(rfc3339(now))
        result = request.result(managers)
        request.settle(managers, result, force=force)
    except fieldset.ItemWithoutKey as error:
        raise ApiError(500, "", f"failed to create typed live object: {error}") from error
    entry = managers.get(identity)
    if entry is not None and (live is None or not same_json(_without_owners(live), result)):
        managers[identity] = fieldset.ManagerEntry(entry.fields, entry.api_version, rfc3339(now))
    if identity.manager == KUBECTL:
        remember_applied(result, applied)
    if managers:
        result.setdefault("metadata", {})["managedFields"] = fieldset.encode_managers(managers)
    return result


def _without_owners(obj: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


class _Apply(Struct, frozen=True):
    live: Object
    applied: Object
    schema: Schema
    identity: fieldset.ManagerIdentity
    reset: frozenset[str]

    def owners(self, time: str) -> fieldset.Managers:
        """Return the managers before this request; an object that was never tracked gets one manager for all fields."""
        managers = fieldset.stored_managers((self.live.get("metadata") or {}).get("managedFields"))
        if self.live and not managers:
            fields = managed_fields.compare({}, self.live, self.schema, self.reset).changed
            api_version = str(self.applied.get("apiVersion"))
            if fields:
                managers[fieldset.ManagerIdentity("before-first-apply", fieldset.UPDATE, api_version)] = (
                    fieldset.ManagerEntry(fields, api_version, time)
                )
        return managers

    def result(self, managers: fieldset.Managers) -> Object:
        """Merge, then remove what this manager applied last time and no manager applies now; records the new set."""
        live = _without_owners(self.live)
        merged: Object = merge(live if self.live else {}, self.applied, self.schema)
        last = managers.get(self.identity)
        fields = configured_fields(self.applied, self.schema, self.reset)
        managers[self.identity] = fieldset.ManagerEntry(
            fields, str(self.applied.get("apiVersion")), last.time if last else None
        )
        if last is None or not last.fields:
            return merged
        return self._let_go(merged, last.fields, managers)

    def _let_go(self, merged: Object, last: fieldset.FieldSet, managers: fieldset.Managers) -> Object:
        stated = with_named_fields(last, self.schema)
        pruned = remove_fields(merged, stated, self.schema)
        # The name and related fields have no manager, but the configuration contains them: they stay.
        owned = with_named_fields(leaves(self.applied, self.schema), self.schema)
        for entry in managers.values():
            owned = fieldset.union(owned, with_named_fields(entry.fields, self.schema))
        everything = with_named_fields(leaves(merged, self.schema), self.schema)
        left = with_named_fields(leaves(pruned, self.schema), self.schema)
        restored = remove_fields(merged, fieldset.difference(everything, fieldset.union(left, owned)), self.schema)
        # A field that returns because an update manages it must have been this manager's before.
        left = with_named_fields(leaves(restored, self.schema), self.schema)
        doomed = fieldset.intersection(fieldset.difference(everything, left), stated)
        kept: Object = remove_fields(merged, doomed, self.schema)
        return kept

    def settle(self, managers: fieldset.Managers, result: Object, *, force: bool) -> None:
        found = managed_fields.compare(self.live, result, self.schema, self.reset)
        conflicts = [
            (owner, path)
            for owner, entry in sorted(managers.items(), key=lambda item: item[0])
            if owner != self.identity
            for path in fieldset.paths(fieldset.intersection(entry.fields, found.changed))
        ]
        if conflicts and not force:
            if self.identity.manager == KUBECTL:
                allowed = set(fieldset.paths(kept_since_last_applied(self.live, self.schema)))
                conflicts = [conflict for conflict in conflicts if conflict[1] not in allowed]
            if conflicts:
                raise ApplyConflict(conflicts)
        managed_fields.take_fields(managers, found, keep=self.identity)
        if not managers[self.identity].fields:
            del managers[self.identity]
