"""Sets of fields, in the very form that managedFields stores: a trie of path elements.

A node is a dict from path element to node. A node belongs to the set when it is empty or holds `.`;
otherwise it only leads to nodes that do. Nodes are shared between sets and never changed in place.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.json import show
from watchword.api.meta import Object
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.model import without_empty

FieldSet = dict[str, Any]
Path = tuple[str, ...]


_KINDS = "fkvi"


def is_member(node: FieldSet) -> bool:
    return not node or "." in node


def make_node(children: FieldSet, *, member: bool) -> FieldSet | None:
    if not children:
        return {} if member else None
    return {".": {}, **children} if member else children


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one or not other:
        return one or other
    merged = dict(one)
    for element, node in other.items():
        present = merged.get(element)
        if present is None or element == ".":
            merged[element] = node
        elif present is not node:
            member = is_member(present) or is_member(node)
            merged[element] = make_node(union(_children(present), _children(node)), member=member)
    return merged


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the fields of one set that are not in the other; fields below a member are fields of their own."""
    if not other:
        return one
    kept: FieldSet = {}
    for element, node in one.items():
        taken = other.get(element)
        if element == ".":
            continue
        if taken is None:
            kept[element] = node
            continue
        member = is_member(node) and not is_member(taken)
        left = make_node(difference(_children(node), _children(taken)), member=member)
        if left is not None:
            kept[element] = left
    return kept


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    return difference(one, difference(one, other))


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Yield the paths of all members: at each level the members first, then what lies below."""
    elements = sorted((element for element in fields if element != "."), key=lambda each: (_KINDS.find(each[0]), each))
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        yield from paths(_children(fields[element]), (*prefix, element))


def print_path(path: Path) -> str:
    """Print a path as messages show it: `.spec.containers[name="a"].image`."""
    return "".join(map(_print_element, path))


def is_field_set(fields: Any) -> bool:
    """Whether a value from outside has the form of a set."""
    if type(fields) is not dict:
        return False
    for element, node in fields.items():
        if element == ".":
            if node != {}:
                return False
        elif len(element) < 2 or element[1] != ":" or element[0] not in _KINDS or not is_field_set(node):
            return False
    return True


def _children(node: FieldSet) -> FieldSet:
    return {element: below for element, below in node.items() if element != "."} if "." in node else node


def _print_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "i":
        return f"[{text}]"
    if kind == "v":
        return f"[={text}]"
    try:
        keys = orjson.loads(text)
        return f"[{','.join(f'{key}={orjson.dumps(value).decode()}' for key, value in sorted(keys.items()))}]"
    except (ValueError, AttributeError):
        return f"[{text}]"


MAX_UPDATERS: Final = 10
APPLY: Final = "Apply"
UPDATE: Final = "Update"


class ManagerIdentity(Struct, frozen=True, order=True):
    """A field manager: appliers keep their identity across versions, updaters do not."""

    manager: str
    operation: str
    api_version: str = ""  # empty for appliers
    subresource: str = ""

    def __str__(self) -> str:
        text = show(self.manager)
        if self.subresource:
            text += f" with subresource {show(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class ManagerEntry(Struct, frozen=True):
    """What one manager owns, and since when."""

    fields: FieldSet
    api_version: str
    time: str | None


Managers = dict[ManagerIdentity, ManagerEntry]


def decode_managers(entries: Any) -> Managers | None:
    """Read managedFields that a client sent; None when they are not well formed."""
    if type(entries) is not list or not all(map(_is_well_formed, entries)):
        return None
    return stored_managers(entries)


def stored_managers(entries: list[Object] | None) -> Managers:
    managers: Managers = {}
    for entry in entries or ():
        identity = ManagerIdentity(
            entry.get("manager") or "",
            entry["operation"],
            entry["apiVersion"] if entry["operation"] == UPDATE else "",
            entry.get("subresource") or "",
        )
        managers[identity] = ManagerEntry(entry.get("fieldsV1") or {}, entry["apiVersion"], entry.get("time"))
    return managers


def encode_managers(managers: Managers) -> list[Object]:
    """Write managedFields: appliers first, then by time, name, version and subresource."""
    return [
        {
            "manager": identity.manager,
            "operation": identity.operation,
            "apiVersion": entry.api_version,
            **({} if entry.time is None else {"time": entry.time}),
            "fieldsType": "FieldsV1",
            "fieldsV1": entry.fields,
            **without_empty({"subresource": identity.subresource}),
        }
        for identity, entry in sorted(managers.items(), key=_manager_order)
    ]


def cap_updaters(managers: Managers) -> None:
    """Merge the oldest updaters of each version, in place, until few enough are left."""
    updaters = [item for item in managers.items() if item[0].operation == UPDATE]
    surplus = len(updaters) - MAX_UPDATERS
    if surplus <= 0:
        return
    first_of_version: dict[str, ManagerIdentity] = {}
    for identity, entry in sorted(updaters, key=lambda item: (item[1].time or "", item[0])):
        if surplus == 0:
            return
        first = first_of_version.setdefault(entry.api_version, identity)
        if first is identity:
            continue
        bucket = ManagerIdentity("ancient-changes", UPDATE, entry.api_version)
        if bucket not in managers:
            managers[bucket] = managers.pop(first)
        managers[bucket] = replace(entry, fields=union(entry.fields, managers[bucket].fields))
        if identity != bucket:
            del managers[identity]
        surplus -= 1


def _is_well_formed(entry: Any) -> bool:
    if type(entry) is not dict:
        return False
    api_version, time = entry.get("apiVersion"), entry.get("time")
    return (
        entry.get("operation") in (APPLY, UPDATE)
        and isinstance(api_version, str)
        and bool(api_version)
        and entry.get("fieldsType") == "FieldsV1"
        and isinstance(entry.get("manager") or "", str)
        and isinstance(entry.get("subresource") or "", str)
        and (time is None or isinstance(time, str))
        and is_field_set(entry.get("fieldsV1") or {})
    )


def _manager_order(item: tuple[ManagerIdentity, ManagerEntry]) -> tuple[str, str, str, str, str]:
    identity, entry = item
    return identity.operation, entry.time or "", identity.manager, entry.api_version, identity.subresource


class ItemWithoutKey(Exception):
    """An item of a list has no identity, so its fields cannot be managed; the message contains the reason."""


def is_granular_map(value: Any, schema: Schema) -> TypeGuard[dict[str, Any]]:
    """Whether each field of an object is owned by itself."""
    return type(value) is dict and schema.map_type != "atomic"


def is_granular_list(value: Any, schema: Schema) -> TypeGuard[list[Any]]:
    """Whether each item of a list is owned by itself."""
    return type(value) is list and schema.list_type != "atomic"


def item_element(item: Any, schema: Schema) -> str:
    if schema.list_type == "set":
        if item is None or type(item) is dict or type(item) is list:
            raise ItemWithoutKey(_SET_ITEMS[type(item)])
        return f"v:{orjson.dumps(item).decode()}"
    if type(item) is not dict:
        kind = "a null element" if item is None else "non-map elements"
        raise ItemWithoutKey(f"associative list with keys may not have {kind}")
    known = schema.item.properties
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
