"""Owner references by UID, and what they mean for a dependent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting, uid_of

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerGraphNode(Struct, frozen=True):
    """One object in the graph; the UID distinguishes it from others of the same name."""

    resource: Resource
    key: ObjectKey
    uid: str

    @classmethod
    def of(cls, resource: Resource, obj: Mapping[str, Any]) -> OwnerGraphNode:
        """Return the node of an object."""
        return cls(resource, ObjectKey.of(obj), uid_of(obj))

    def __str__(self) -> str:
        return f"{self.resource.group_resource} {self.key}"


class OwnerGraph(Struct):
    """Which objects name which owners; only objects with owners are stored."""

    owners: dict[OwnerGraphNode, frozenset[str]] = field(default_factory=dict)
    dependents: dict[str, set[OwnerGraphNode]] = field(default_factory=dict)

    def put(self, node: OwnerGraphNode, obj: Object) -> None:
        """Enter or change an object."""
        fresh = frozenset(str(ref.get("uid") or "") for ref in owner_references_of(obj))
        known = self.owners.get(node, frozenset())
        for uid in known - fresh:
            self._unlink(uid, node)
        for uid in fresh - known:
            self.dependents.setdefault(uid, set()).add(node)
        if fresh:
            self.owners[node] = fresh
        else:
            self.owners.pop(node, None)

    def drop(self, node: OwnerGraphNode) -> frozenset[str]:
        """Remove an object; return the UIDs of its owners."""
        owners = self.owners.pop(node, frozenset())
        for uid in owners:
            self._unlink(uid, node)
        return owners

    def dependents_of(self, uid: str) -> list[OwnerGraphNode]:
        """Return the objects that name this owner."""
        return list(self.dependents.get(uid, ()))

    def _unlink(self, uid: str, node: OwnerGraphNode) -> None:
        row = self.dependents.get(uid)
        if row is not None:
            row.discard(node)
            if not row:
                del self.dependents[uid]


class OwnerState(Enum):
    """What an owner reference is worth."""

    SOLID = "the owner is there and stays"
    WAITING = "the owner is there and waits for its dependents to go"
    DANGLING = "the owner is gone, or is another object of the same name"
    UNKNOWN = "unknown: the owner's kind is not served, or cannot own this object"


class DependentDecision(Struct, frozen=True):
    """What is to become of a dependent."""

    delete: bool = False
    foreground: bool = False
    strip: frozenset[str] = frozenset()  # UIDs of references to remove


def decide_owner_state(owner: Object | None, uid: str) -> OwnerState:
    """Return whether an owner of this UID exists, given the object of that name."""
    if owner is None or uid_of(owner) != uid:
        return OwnerState.DANGLING
    if is_deleting(owner) and FOREGROUND in finalizers_of(owner):
        return OwnerState.WAITING
    return OwnerState.SOLID


def decide_dependent(standings: Mapping[str, OwnerState], *, has_dependents: bool) -> DependentDecision:
    """Decide from the standing of each owner, by UID; without owners nothing happens."""
    if not standings or OwnerState.UNKNOWN in standings.values():
        return DependentDecision()
    if OwnerState.SOLID in standings.values():
        strip = frozenset(uid for uid, standing in standings.items() if standing != OwnerState.SOLID)
        return DependentDecision(strip=strip)
    waiting = OwnerState.WAITING in standings.values()
    return DependentDecision(delete=True, foreground=waiting and has_dependents)


def owner_references_of(obj: Mapping[str, Any]) -> list[Object]:
    """Return the owner references."""
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def is_blocking_owner(obj: Object, owner_uid: str) -> bool:
    """Whether the object blocks that owner's foreground deletion."""
    return any(ref.get("uid") == owner_uid and ref.get("blockOwnerDeletion") for ref in owner_references_of(obj))


def without_references(obj: Object, uids: frozenset[str]) -> Object:
    """Return the object without references to these owners."""
    kept = [ref for ref in owner_references_of(obj) if ref.get("uid") not in uids]
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": {**metadata, **({"ownerReferences": kept} if kept else {})}}


def without_finalizer(obj: Object, name: str) -> Object:
    """Return the object without that finalizer."""
    kept = [each for each in finalizers_of(obj) if each != name]
    return {**obj, "metadata": {**obj["metadata"], "finalizers": kept}}


def without_blocking_references(obj: Object) -> Object:
    """Return the object with no reference that is_blocking_owner an owner: it breaks a circle."""
    refs = [{**ref, "blockOwnerDeletion": False} for ref in owner_references_of(obj)]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": refs}}


def group_and_kind(ref: Object) -> tuple[str, str]:
    """Return what kind of object a reference names."""
    return str(ref.get("apiVersion") or "").rpartition("/")[0], str(ref.get("kind") or "")


def each_live(nodes: list[OwnerGraphNode], get: Any) -> Iterator[tuple[OwnerGraphNode, Object]]:
    """Yield the nodes that still are what they were, with their objects."""
    for node in nodes:
        obj = get(node.resource, node.key)
        if obj is not None and uid_of(obj) == node.uid:
            yield node, obj
