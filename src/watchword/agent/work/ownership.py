"""Whose an object is: the references that tie it to the record of the work that applied it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from watchword.agent.work.manifests import ObjectRef
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of


def hub_hash(server: str) -> str:
    """Return the fingerprint of a hub's address."""
    return hashlib.sha256(server.encode()).hexdigest()


def applied_work_name(hub: str, work: str) -> str:
    """Return the name of the record of a work, from the fingerprint of its hub."""
    return f"{hub}-{work}"


@dataclass(frozen=True, slots=True)
class AppliedResource:
    """One object that a work has applied, or was about to apply when the UID is empty."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> AppliedResource:
        """Read one entry of a record."""
        fields = ("group", "version", "resource", "namespace", "name", "uid")
        return cls(*(str(row.get(field) or "") for field in fields))

    @classmethod
    def of(cls, target: ObjectRef, uid: str = "") -> AppliedResource:
        """Return the entry of an object."""
        resource, key = target.resource, target.key
        return cls(resource.group, resource.version, resource.plural, key.namespace, key.name, uid)

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes it the same object in whatever version it is spoken of."""
        return self.group, self.resource, self.namespace, self.name

    @property
    def target(self) -> ObjectRef:
        """Return the object; its kind is not on record, and not needed to read or delete it."""
        resource = Resource(self.group, self.version, self.resource, "", namespaced=bool(self.namespace))
        return ObjectRef(resource, ObjectKey(self.namespace, self.name))

    def row(self) -> Object:
        """Return it as a record shows it."""
        names = ("group", "version", "resource", "namespace", "name", "uid")
        return {name: value for name in names if (value := getattr(self, name))}


def read_applied_resources(record: Mapping[str, Any]) -> list[AppliedResource]:
    """Return everything that a record says was applied."""
    return [AppliedResource.read(row) for row in (record.get("status") or {}).get("appliedResources") or ()]


def owner_references_of(obj: Mapping[str, Any]) -> list[Object]:
    """Return the owner references of an object."""
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def is_owned_by(obj: Mapping[str, Any], uid: str) -> bool:
    """Whether one of the owners has that UID."""
    return any(row.get("uid") == uid for row in owner_references_of(obj))


def choose_owner_references(present: Mapping[str, Any], owner: Object, *, orphaned: bool) -> list[Object] | None:
    """Return the owner references an object should have, None when it has them; those of others stay."""
    owned = is_owned_by(present, owner["uid"])
    if owned is not orphaned:
        return None
    others = [row for row in owner_references_of(present) if row.get("uid") != owner["uid"]]
    return others if orphaned else [*others, owner]


class RemovalAction(Enum):
    """What to do with an object that is no longer wanted."""

    NOTHING = auto()  # it is gone, replaced, or not ours
    DISOWN = auto()
    DELETE = auto()
    WAIT = auto()


def decide_removal(applied: AppliedResource, present: Object | None, *, owner_uid: str, keep: bool) -> RemovalAction:
    """Decide about an object from what it says itself: only what carries our reference is ours to delete.

    Somebody who deleted and recreated it, took it over, or owns it with us must not lose it.
    """
    if present is None or (applied.uid and uid_of(present) != applied.uid) or not is_owned_by(present, owner_uid):
        return RemovalAction.NOTHING
    if keep or len(owner_references_of(present)) > 1:
        return RemovalAction.DISOWN
    return RemovalAction.WAIT if is_deleting(present) else RemovalAction.DELETE


def choose_stale_resources(recorded: Iterable[AppliedResource], wanted: Iterable[ObjectRef]) -> list[AppliedResource]:
    """Return what was applied and is not wanted any more."""
    identities = {target.identity for target in wanted}
    return [one for one in recorded if one.identity not in identities]
