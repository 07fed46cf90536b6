"""The entries of metadata.managedFields: read, capped, sorted, written."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.json import show
from watchword.api.meta import Object
from watchword.apiserver.fieldmanager.fieldset import FieldSet, is_field_set, union

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


def make_identity(manager: str, operation: str, api_version: str, subresource: str) -> ManagerIdentity:
    """Return the identity of a writer; one without a name is called unknown."""
    return ManagerIdentity(manager or "unknown", operation, api_version if operation == UPDATE else "", subresource)


def decode_managers(entries: Any) -> Managers | None:
    """Read managedFields that a client sent; None when they are not well formed."""
    if type(entries) is not list or not all(map(_is_well_formed, entries)):
        return None
    return stored_managers(entries)


def stored_managers(entries: list[Object] | None) -> Managers:
    """Read managedFields of a stored object, which this module wrote or checked."""
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
    ordered = managers.items()
    if len(managers) > 1:
        ordered = sorted(ordered, key=_order)  # type: ignore[assignment]
    return [_encode(identity, entry) for identity, entry in ordered]


def encode_update(identity: ManagerIdentity, fields: FieldSet, time: str) -> Object:
    """Write the single entry of an object that was just created."""
    return _encode(identity, ManagerEntry(fields, identity.api_version, time))


def is_reset(entries: Any) -> bool:
    """Whether a client resets all managers: an empty list, or a list of one empty entry."""
    return type(entries) is list and (not entries or entries == [{}])


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


def _order(item: tuple[ManagerIdentity, ManagerEntry]) -> tuple[str, str, str, str, str]:
    identity, entry = item
    return identity.operation, entry.time or "", identity.manager, entry.api_version, identity.subresource


def _encode(identity: ManagerIdentity, entry: ManagerEntry) -> Object:
    encoded: Object = {
        "manager": identity.manager,
        "operation": identity.operation,
        "apiVersion": entry.api_version,
    }
    if entry.time is not None:
        encoded["time"] = entry.time
    encoded["fieldsType"] = "FieldsV1"
    encoded["fieldsV1"] = entry.fields
    if identity.subresource:
        encoded["subresource"] = identity.subresource
    return encoded
