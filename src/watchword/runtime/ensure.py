"""Makes single objects exist as wanted: with as few requests as possible, and never at another's expense."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting, uid_of
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.runtime.diff import Comparison, choose_changes, choose_owner_references, current_values
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Reader

PRECONDITIONS = ("uid", "resourceVersion")


class ObjectWriter(Protocol):
    """What the engine needs of a client; `Client` is one."""

    async def get(self, resource: Resource, key: ObjectKey, /) -> Object: ...

    async def create(self, resource: Resource, obj: Object, /) -> Object: ...

    async def patch(self, resource: Resource, key: ObjectKey, patch: Mapping[str, Any], /) -> Object: ...

    async def apply(self, resource: Resource, obj: Object, /, *, manager: str, force: bool) -> Object: ...

    async def delete(self, resource: Resource, key: ObjectKey, /, *, uid: str) -> None: ...


class ApplyPolicy(Struct, frozen=True, kw_only=True):
    """How an object is made as wanted; the defaults patch the difference into an object of any owner."""

    is_ours: Callable[[Object], bool] = lambda _: True  # `NameConflict` for an object of which this is not true
    comparison: Comparison = Comparison.NAMED_FIELDS
    manager: str = ""  # the field manager of server-side apply; empty: a merge patch of what differs
    force: bool = False  # whether server-side apply takes fields from other managers
    without_owner: str = ""  # the UID of the owner reference that the object must not have
    immutable: tuple[str, ...] = ("roleRef",)  # fields for which the object is deleted and created again
    accepted: str = ""  # `difference_digest` of a difference that the server insists on


async def apply_object(
    client: ObjectWriter, resource: Resource, wanted: Object, present: Object | None, policy: ApplyPolicy
) -> Object:
    """Return the object as it stands afterwards; `present` is how it was last seen, if it was.

    Raises `NameConflict` for what is not ours, and `BeingDeleted` while an object of that name goes.
    """
    key = ObjectKey.of(wanted)
    if present is None and not policy.manager:
        try:
            return await client.create(resource, wanted)
        except AlreadyExists:  # the cache is behind, or leaves out what carries no label of ours
            present = await client.get(resource, key)
    if present is not None:
        changes = decide_changes(resource, wanted, present, policy)
        if changes is None:
            return present
        if any(field in changes for field in policy.immutable):
            await client.delete(resource, key, uid=uid_of(present))
            kept = {name: value for name, value in wanted["metadata"].items() if name not in PRECONDITIONS}
            return await client.create(resource, {**wanted, "metadata": kept})
        if not policy.manager:
            return await client.patch(resource, key, with_preconditions(present, changes))
    stored = await client.apply(resource, wanted, manager=policy.manager, force=policy.force)
    require_not_deleting(resource, stored)
    return await _set_owners(client, resource, wanted, stored, policy)


def decide_changes(resource: Resource, wanted: Object, present: Object, policy: ApplyPolicy) -> Object | None:
    """Return the merge patch that is missing, or None; raises `NameConflict` and `BeingDeleted`."""
    require_not_deleting(resource, present)
    if not policy.is_ours(present):
        key = ObjectKey.of(present)
        raise NameConflict(f"{resource.kind} {key} exists and was not made for this purpose: rename or remove it")
    changes = choose_changes(present, wanted, policy.comparison, without_owner=policy.without_owner)
    if changes is None or (policy.accepted and difference_digest(present, changes) == policy.accepted):
        return None
    return changes


async def _set_owners(
    client: ObjectWriter, resource: Resource, wanted: Object, stored: Object, policy: ApplyPolicy
) -> Object:
    """Take off the owner reference that server-side apply leaves when another manager wrote it."""
    references = wanted["metadata"].get("ownerReferences") or ()
    owners = choose_owner_references(stored["metadata"], references, without=policy.without_owner)
    if owners is None:
        return stored
    patch = with_preconditions(stored, {"metadata": {"ownerReferences": owners or None}})
    return await client.patch(resource, ObjectKey.of(stored), patch)


def require_not_deleting(resource: Resource, obj: Object) -> None:
    if is_deleting(obj):
        raise BeingDeleted(f"{resource.kind} {ObjectKey.of(obj)} is being deleted; waiting until it is gone")


def difference_digest(present: Object, changes: Object) -> str:
    """Return the fingerprint of a difference that the server insists on, as `1000m` becomes `1`.

    A second request would change nothing. The present values are part of the fingerprint, so any other value counts.
    """
    difference = [changes, current_values(present, changes)]
    return hashlib.sha256(orjson.dumps(difference, option=orjson.OPT_SORT_KEYS)).hexdigest()


def with_preconditions(present: Object, patch: Mapping[str, Any]) -> Object:
    """Return the patch, valid only for this very object at this very revision."""
    own = {name: present["metadata"][name] for name in PRECONDITIONS}
    return {**patch, "metadata": {**patch.get("metadata", {}), **own}}


async def add_finalizer(client: ObjectWriter, resource: Resource, obj: Object, finalizer: str) -> Object:
    """Add the finalizer of a controller; return the object as it then is."""
    held = finalizers_of(obj)
    if finalizer in held:
        return obj
    patch = with_preconditions(obj, {"metadata": {"finalizers": [*held, finalizer]}})
    return await client.patch(resource, ObjectKey.of(obj), patch)


async def remove_finalizer(client: ObjectWriter, resource: Resource, obj: Object, *finalizers: str) -> None:
    """Remove finalizers of an object; one that is deleted is no error."""
    kept = [name for name in finalizers_of(obj) if name not in finalizers]
    if len(kept) != len(finalizers_of(obj)):
        patch = with_preconditions(obj, {"metadata": {"finalizers": kept or None}})
        with suppress(NotFound):
            await client.patch(resource, ObjectKey.of(obj), patch)


async def delete_object(client: ObjectWriter, resource: Resource, obj: Object) -> None:
    """Delete exactly this object; one that is gone is no error."""
    with suppress(NotFound):
        await client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj))


class Ensurer(Struct, frozen=True):
    """Creates what is missing and patches what differs; what the cache shows as right costs no request."""

    reader: Reader
    client: Client

    async def ensure(self, resource: Resource, wanted: Object, *, ours: Callable[[Object], bool]) -> Object:
        """Return the object as it stands afterwards.

        Raises `NameConflict` when `ours` does not recognise what is there already, `BeingDeleted` while it goes.
        """
        present = self.reader.get(resource, ObjectKey.of(wanted))
        return await apply_object(self.client, resource, wanted, present, ApplyPolicy(is_ours=ours))

    async def ensure_exists(self, resource: Resource, wanted: Object) -> None:
        """Create the object unless there is one of that name; what is in it afterwards is others' business."""
        if self.reader.get(resource, ObjectKey.of(wanted)) is None:
            with suppress(AlreadyExists):
                await self.client.create(resource, wanted)

    async def remove(self, resource: Resource, key: ObjectKey, *, ours: Callable[[Object], bool]) -> bool:
        """Delete the object the cache shows, if it is ours; return whether anything is left to wait for."""
        present = self.reader.get(resource, key)
        if present is None or not ours(present):
            return False
        if not is_deleting(present):
            await self.client.delete(resource, key, uid=uid_of(present))
        return True
