"""Writes the status of objects: only differences, only to what was read."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct

from watchword.api.conditions import Condition, conditions_of, merge_condition, without_condition
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.kube.client import Client, PatchType
from watchword.kube.errors import Conflict, Invalid
from watchword.runtime.clock import Clock
from watchword.runtime.diff import merge_patch
from watchword.runtime.errors import CacheError
from watchword.runtime.raw_objects import is_newer
from watchword.runtime.reconcile import Reader, note_refusal


class StatusChange(Struct, frozen=True):
    """The desired content of a status; fields that are not named stay as they are."""

    conditions: tuple[Condition, ...] = ()
    without: tuple[str, ...] = ()  # types of conditions that no longer apply
    fields: Mapping[str, Any] | None = None  # other fields of the status; None as a value removes one


class StatusWriter(Struct, frozen=True):
    """Writes conditions and other status fields as a merge patch on `/status`.

    A merge patch replaces lists as a whole, so each patch is valid only for the version it was made from. After a
    conflict the change is made once more: to the version in the cache when it is newer, then to that of the server.
    """

    client: Client
    clock: Clock
    reader: Reader | None = None

    async def set_condition(self, resource: Resource, obj: Object, condition: Condition) -> Object:
        return await self.write(resource, obj, StatusChange(conditions=(condition,)))

    async def set_conditions(self, resource: Resource, obj: Object, conditions: Iterable[Condition]) -> Object:
        return await self.write(resource, obj, StatusChange(conditions=tuple(conditions)))

    async def write(self, resource: Resource, obj: Object, change: StatusChange) -> Object:
        """Make a change; nothing is sent when the status has that content already.

        Raises `Conflict` when the object was replaced by another of the same name, or changes too fast.
        """
        try:
            return await self.write_if_unchanged(resource, obj, change)
        except Conflict:
            cached = self._newer_in_cache(resource, obj)
            if cached is not None:
                with suppress(Conflict):
                    return await self.write_if_unchanged(resource, cached, change)
            current = await self.client.get(resource, ObjectKey.of(obj))
            if uid_of(current) != uid_of(obj):
                raise
            return await self.write_if_unchanged(resource, current, change)

    def _newer_in_cache(self, resource: Resource, obj: Object) -> Object | None:
        """Return what another controller of this process has just written, if it is that."""
        try:
            found = None if self.reader is None else self.reader.get(resource, ObjectKey.of(obj))
        except CacheError:  # the kind is not watched
            return None
        if found is None or uid_of(found) != uid_of(obj):
            return None
        versions = (str(one["metadata"].get("resourceVersion") or "") for one in (found, obj))
        return found if is_newer(*versions) else None

    async def write_if_unchanged(self, resource: Resource, obj: Object, change: StatusChange) -> Object:
        """Make a change that was decided from this version; `Conflict` when it is outdated.

        For fields that others write, too: a retry would undo what they wrote.
        """
        status = self._choose_patch(obj, change)
        return obj if status is None else await self._merge(resource, obj, status)

    async def write_rows_if_unchanged(self, resource: Resource, obj: Object, change: StatusChange) -> Object:
        """Make a change to the conditions and fields that it names; `Conflict` when one of these is outdated.

        For a status with several writers: what they have written elsewhere since does not matter. The first write of a
        list or field is valid for the version that was read alone, because a JSON patch cannot test that it is absent.
        """
        status = self._choose_patch(obj, change)
        if status is None:
            return obj
        operations = choose_row_patch(obj, change, status)
        if operations:
            with suppress(Invalid):  # a test failed, or the value is refused: the merge patch tells which
                key = ObjectKey.of(obj)
                return await self.client.patch(resource, key, operations, kind=PatchType.JSON, subresource="status")
        return await self._merge(resource, obj, status)

    def _choose_patch(self, obj: Object, change: StatusChange) -> Object | None:
        for condition in change.conditions:
            if condition.is_refusal:
                note_refusal(condition.reason)
        return choose_status_patch(obj, change, now=self.clock.now())

    async def _merge(self, resource: Resource, obj: Object, status: Object) -> Object:
        metadata = obj["metadata"]
        precondition = {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}
        patch = {"metadata": precondition, "status": status}
        return await self.client.patch(resource, ObjectKey.of(obj), patch, subresource="status")


def choose_row_patch(obj: Mapping[str, Any], change: StatusChange, status: Object) -> list[Object]:
    """Return `status`, a merge patch, as a JSON patch that tests what it replaces; empty when it has to add a field."""
    current, wanted = obj.get("status") or {}, {**(change.fields or {}), "conditions": status.get("conditions")}
    if any(name not in current for name in status):
        return []
    operations: list[Object] = [{"op": "test", "path": "/metadata/uid", "value": uid_of(obj)}]
    for name in status:
        before, after = current[name], wanted[name]
        pairs = [(f"/status/{name}", before, after)]
        if name == "conditions" and [row.get("type") for row in before] == [row["type"] for row in after]:
            pairs = [(f"/status/{name}/{number}", *pair) for number, pair in enumerate(zip(before, after, strict=True))]
        for path, old, new in pairs:
            if old != new:
                change_of_it = {"op": "remove"} if new is None else {"op": "replace", "value": new}
                operations += [{"op": "test", "path": path, "value": old}, {**change_of_it, "path": path}]
    return operations


def choose_status_patch(obj: Mapping[str, Any], change: StatusChange, *, now: datetime) -> Object | None:
    patch: Object = {}
    rows = choose_conditions(obj, change, now=now)
    if rows is not None:
        patch["conditions"] = rows
    current = obj.get("status") or {}
    for name, value in (change.fields or {}).items():
        if current.get(name) != value:
            patch[name] = merge_patch(current.get(name), value)
    return patch or None


def choose_conditions(obj: Mapping[str, Any], change: StatusChange, *, now: datetime) -> list[Object] | None:
    """Return the complete list of conditions as it should be, or None when it already is."""
    rows = before = conditions_of(obj)
    generation = (obj.get("metadata") or {}).get("generation")
    for condition in change.conditions:
        rows = merge_condition(rows, condition, now=now, generation=generation) or rows
    for type_ in change.without:
        kept = without_condition(rows, type_)
        rows = rows if kept is None else kept
    return None if rows is before else rows
