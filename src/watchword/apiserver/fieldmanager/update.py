"""Updates managedFields after a create, an update or a patch: a writer of a field becomes its manager."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver.fieldmanager.compare import Comparison, all_fields, compare
from watchword.apiserver.fieldmanager.fieldset import FieldSet, difference, union
from watchword.apiserver.fieldmanager.managers import (
    UPDATE,
    ManagerEntry,
    ManagerIdentity,
    Managers,
    cap_updaters,
    decode_managers,
    encode_managers,
    encode_update,
    is_reset,
    make_identity,
    stored_managers,
)
from watchword.apiserver.fieldmanager.shape import ItemWithoutKey
from watchword.apiserver.schema.model import Schema


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
    identity = make_identity(manager, UPDATE, api_version, subresource)
    if subresource == "status":
        reset = frozenset({*new, *(old or ())} - {"status"})
    metadata = new.setdefault("metadata", {})
    said = metadata.pop("managedFields", None)
    try:
        if old is None and not said:
            fields = new_fields(new, empty, schema, reset)
            entries = [encode_update(identity, fields, rfc3339(now))] if fields else []
        else:
            managers = _known_managers(old, said, subresource)
            if managers or old is None:
                _take_over(managers, identity, compare(old or empty or {}, new, schema, reset), rfc3339(now))
            entries = encode_managers(managers)
    except ItemWithoutKey:
        entries = []  # as kube-apiserver: better no owners than wrong ones
    if entries:
        metadata["managedFields"] = entries


def new_fields(obj: Object, empty: Object | None, schema: Schema, reset: frozenset[str]) -> FieldSet:
    """Return the fields that an object has beyond those of an empty one of its kind."""
    if empty is None or not empty.keys() - _ALWAYS:
        return all_fields(obj, schema, reset)
    return compare(empty, obj, schema, reset).changed


_ALWAYS = frozenset(("apiVersion", "kind", "metadata"))


def take_fields(managers: Managers, found: Comparison, *, keep: ManagerIdentity | None = None) -> None:
    """Remove changed and removed fields, in place, from all managers but `keep`; empty managers are removed."""
    for identity, entry in list(managers.items()):
        if identity == keep:
            continue
        fields = difference(difference(entry.fields, found.changed), found.removed)
        if not fields:
            del managers[identity]
        elif fields is not entry.fields:
            managers[identity] = ManagerEntry(fields, entry.api_version, entry.time)


def _take_over(managers: Managers, identity: ManagerIdentity, found: Comparison, time: str) -> None:
    if not found.changed and not found.removed:
        return
    take_fields(managers, found)
    if found.changed:
        previous = managers.get(identity)
        fields = union(found.changed, previous.fields) if previous is not None else found.changed
        managers[identity] = ManagerEntry(fields, identity.api_version, time)
        cap_updaters(managers)


def _known_managers(old: Object | None, said: Any, subresource: str) -> Managers:
    """Return the owners to start from: those that the client wrote, or else the stored ones."""
    stored = ((old or {}).get("metadata") or {}).get("managedFields")
    if not subresource and said != stored:
        if is_reset(said):
            return {}
        told = decode_managers(said)
        if told:
            return told
    return stored_managers(stored)
