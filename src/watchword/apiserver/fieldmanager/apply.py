"""Server-side apply: a manager declares fields, manages them, and releases those it no longer declares."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from watchword.api.json import same_json
from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver.errors import bad_request
from watchword.apiserver.fieldmanager.applied_fields import configured_fields, leaves
from watchword.apiserver.fieldmanager.compare import Comparison, compare
from watchword.apiserver.fieldmanager.errors import ApplyConflict, Conflict
from watchword.apiserver.fieldmanager.fieldset import FieldSet, difference, intersection, paths, union
from watchword.apiserver.fieldmanager.last_applied import KUBECTL, kept_since_last_applied, remember_applied
from watchword.apiserver.fieldmanager.managers import (
    APPLY,
    UPDATE,
    ManagerEntry,
    ManagerIdentity,
    Managers,
    encode_managers,
    make_identity,
    stored_managers,
)
from watchword.apiserver.fieldmanager.merge import merge
from watchword.apiserver.fieldmanager.remove import remove_fields, with_named_fields
from watchword.apiserver.fieldmanager.shape import ItemWithoutKey
from watchword.apiserver.fieldmanager.typed import check_applied
from watchword.apiserver.fieldmanager.update import new_fields, take_fields
from watchword.apiserver.model import ApiError
from watchword.apiserver.schema.model import Schema


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
    empty: Object | None = None,
) -> Object:
    """Return the object that results, with its managedFields; neither argument is changed.

    Raises ApplyConflict unless forced, 500 for a configuration that does not fit the schema.
    `reset`, `subresource` and `empty` mean what they mean in `track_update`.
    """
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    check_applied(applied, schema)
    if subresource == "status":
        reset = frozenset({*applied, *(live or ())} - {"status"})
    identity = make_identity(manager, APPLY, "", subresource)
    request = _Apply(live or {}, applied, schema, identity, reset, empty)
    try:
        managers = request.owners(rfc3339(now))
        result = request.result(managers)
        request.settle(managers, result, force=force)
    except ItemWithoutKey as error:
        raise ApiError(500, "", f"failed to create typed live object: {error}") from error
    entry = managers.get(identity)
    if entry is not None and (live is None or not same_json(_without_owners(live), result)):
        managers[identity] = ManagerEntry(entry.fields, entry.api_version, rfc3339(now))
    if identity.manager == KUBECTL:
        remember_applied(result, applied)
    if managers:
        result.setdefault("metadata", {})["managedFields"] = encode_managers(managers)
    return result


def _without_owners(obj: Object) -> Object:
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


class _Apply(Struct, frozen=True):
    live: Object
    applied: Object
    schema: Schema
    identity: ManagerIdentity
    reset: frozenset[str]
    empty: Object | None

    def owners(self, time: str) -> Managers:
        """Return the managers before this request; an object that was never tracked gets one manager for all fields."""
        managers = stored_managers((self.live.get("metadata") or {}).get("managedFields"))
        if self.live and not managers:
            fields = new_fields(self.live, self.empty, self.schema, self.reset)
            api_version = str(self.applied.get("apiVersion"))
            if fields:
                managers[ManagerIdentity("before-first-apply", UPDATE, api_version)] = ManagerEntry(
                    fields, api_version, time
                )
        return managers

    def result(self, managers: Managers) -> Object:
        """Merge, then remove what this manager applied last time and no manager applies now; records the new set."""
        live = _without_owners(self.live)
        merged: Object = merge(live if self.live else {}, self.applied, self.schema)
        last = managers.get(self.identity)
        fields = configured_fields(self.applied, self.schema, self.reset)
        managers[self.identity] = ManagerEntry(fields, str(self.applied.get("apiVersion")), last.time if last else None)
        if last is None or not last.fields:
            return merged
        return self._let_go(merged, last.fields, managers)

    def _let_go(self, merged: Object, last: FieldSet, managers: Managers) -> Object:
        stated = with_named_fields(last, self.schema)
        pruned = remove_fields(merged, stated, self.schema)
        # The name and related fields have no manager, but the configuration contains them: they stay.
        owned = with_named_fields(leaves(self.applied, self.schema), self.schema)
        for entry in managers.values():
            owned = union(owned, with_named_fields(entry.fields, self.schema))
        everything = with_named_fields(leaves(merged, self.schema), self.schema)
        left = with_named_fields(leaves(pruned, self.schema), self.schema)
        restored = remove_fields(merged, difference(everything, union(left, owned)), self.schema)
        # A field that returns because an update manages it must have been this manager's before.
        left = with_named_fields(leaves(restored, self.schema), self.schema)
        doomed = intersection(difference(everything, left), stated)
        kept: Object = remove_fields(merged, doomed, self.schema)
        return kept

    def settle(self, managers: Managers, result: Object, *, force: bool) -> None:
        """Refuse or take the fields of others that this request changes."""
        found = compare(self.live, result, self.schema, self.reset)
        conflicts = self._conflicts(managers, found)
        if conflicts and not force:
            if self.identity.manager == KUBECTL:
                allowed = set(paths(kept_since_last_applied(self.live, self.schema)))
                conflicts = [conflict for conflict in conflicts if conflict[1] not in allowed]
            if conflicts:
                raise ApplyConflict(conflicts)
        take_fields(managers, found, keep=self.identity)
        if not managers[self.identity].fields:
            del managers[self.identity]

    def _conflicts(self, managers: Managers, found: Comparison) -> list[Conflict]:
        return [
            (owner, path)
            for owner, entry in sorted(managers.items(), key=lambda item: item[0])
            if owner != self.identity
            for path in paths(intersection(entry.fields, found.changed))
        ]
