"""Making one object exist as wanted, with as few requests as possible and never at another's expense."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Reader
from watchword.runtime.status import merge_patch

_IMMUTABLE = ("roleRef",)


@dataclass(frozen=True, slots=True)
class Ensurer:
    """Creates what is missing and patches what differs; what the cache shows as right costs no request."""

    reader: Reader
    client: Client

    async def ensure(self, resource: Resource, wanted: Object, *, ours: Callable[[Object], bool]) -> Object:
        """Return the object as it stands afterwards.

        Raises `NameConflict` when `ours` does not recognise what is there already, `BeingDeleted` while it goes.
        """
        key = ObjectKey.of(wanted)
        present = self.reader.get(resource, key)
        if present is None:
            try:
                return await self.client.create(resource, wanted)
            except AlreadyExists:  # the cache is behind, or leaves out what carries no label of ours
                present = await self.client.get(resource, key)
        if is_deleting(present):
            raise BeingDeleted(f"{resource.kind} {key} is being deleted; waiting until it is gone")
        if not ours(present):
            raise NameConflict(f"{resource.kind} {key} exists and was not made for this purpose: rename or remove it")
        if any(present.get(field) != wanted.get(field) for field in _IMMUTABLE if field in wanted):
            return await self._replace(resource, present, wanted)
        changes = choose_changes(present, wanted)
        if changes is None:
            return present
        return await self.client.patch(resource, key, with_preconditions(present, changes))

    async def ensure_exists(self, resource: Resource, wanted: Object) -> None:
        """Create the object unless there is one of that name; what is in it afterwards is others' business."""
        if self.reader.get(resource, ObjectKey.of(wanted)) is None:
            with contextlib.suppress(AlreadyExists):
                await self.client.create(resource, wanted)

    async def remove(self, resource: Resource, key: ObjectKey, *, ours: Callable[[Object], bool]) -> bool:
        """Delete the object the cache shows, if it is ours; return whether anything is left to wait for."""
        present = self.reader.get(resource, key)
        if present is None or not ours(present):
            return False
        if not is_deleting(present):
            await self.client.delete(resource, key, uid=uid_of(present))
        return True

    async def _replace(self, resource: Resource, present: Object, wanted: Object) -> Object:
        await self.client.delete(resource, ObjectKey.of(present), uid=uid_of(present))
        return await self.client.create(resource, wanted)


def choose_changes(present: Object, wanted: Object) -> Object | None:
    """Return the merge patch that makes `present` hold what `wanted` says, or None when it does already.

    Labels and annotations that others added stay; every other field that `wanted` names is as wanted, whole.
    """
    patch: Object = {}
    metadata = _metadata_changes(present.get("metadata") or {}, wanted.get("metadata") or {})
    if metadata:
        patch["metadata"] = metadata
    for field, value in wanted.items():
        if field in {"apiVersion", "kind", "metadata"} or present.get(field) == value:
            continue
        patch[field] = merge_patch(present.get(field), value)
    return patch or None


def with_preconditions(present: Object, patch: Mapping[str, Any]) -> Object:
    """Return the patch, valid only for this very object at this very revision."""
    metadata = present["metadata"]
    own = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {**patch, "metadata": {**patch.get("metadata", {}), **own}}


def _metadata_changes(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    changes: Object = {}
    for field in ("labels", "annotations"):
        missing = {
            name: value
            for name, value in (wanted.get(field) or {}).items()
            if (present.get(field) or {}).get(name) != value
        }
        if missing:
            changes[field] = missing
    for field in ("ownerReferences", "finalizers"):
        if field in wanted and present.get(field) != wanted[field]:
            changes[field] = wanted[field]
    return changes
