"""Lets go of objects that are no longer wanted, without harming what others own or made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any

from msgspec import Struct, field

from watchword.agent.work.applied_work_store import AppliedResource
from watchword.agent.work.object_client import ObjectClient
from watchword.api.meta import Object, ObjectKey, ObjectRef, is_deleting, uid_of
from watchword.kube.errors import ApiStatusError, NotFound
from watchword.kube.rest_mapper import RestMapper
from watchword.runtime.api_errors import describe_api_error
from watchword.runtime.diff import choose_owner_references
from watchword.runtime.ensure import with_preconditions


class RemovalFailure(Struct, frozen=True):
    """Why an object could not be let go."""

    target: ObjectRef
    error: ApiStatusError

    def __str__(self) -> str:
        return f"{self.target} cannot be removed: {describe_api_error(self.error, self.target)}"


class ObjectRemover(Struct, frozen=True):
    """Deletes what is ours alone and gives up the rest."""

    objects: ObjectClient
    rest_mapper: RestMapper
    failures: dict[ObjectKey, str] = field(default_factory=dict)  # why a record cannot be emptied, while it cannot

    async def resolve(self, applied: Iterable[AppliedResource]) -> dict[AppliedResource, ObjectRef]:
        """Return the objects of entries of a record, under the kinds by which they are followed.

        Kinds that are no longer served have no objects either, and are left out.
        """
        found: dict[AppliedResource, ObjectRef] = {}
        for one in applied:
            resource = await self.rest_mapper.resource(one.group, one.version, one.resource)
            if resource is not None:
                found[one] = ObjectRef(resource, one.target.key)
        return found

    async def remove(
        self, targets: dict[AppliedResource, ObjectRef], owner: Object, *, keep: Callable[[ObjectRef], bool]
    ) -> tuple[list[AppliedResource], RemovalFailure | None]:
        """Let go of each object that can be; return what is still there, and the first refusal if there was one."""
        left: list[AppliedResource] = []
        failure: RemovalFailure | None = None
        for one, target in targets.items():
            try:
                is_left = await self._remove(one, target, owner, keep=keep(target))
            except ApiStatusError as error:
                is_left, failure = True, failure or RemovalFailure(target, error)
            if is_left:
                left.append(one)
        return left, failure

    async def _remove(self, applied: AppliedResource, target: ObjectRef, owner: Object, *, keep: bool) -> bool:
        present = await self.objects.read(target)
        match decide_removal(applied, present, owner_uid=owner["uid"], keep=keep):
            case RemovalAction.NOTHING:
                return False
            case RemovalAction.DISOWN:
                assert present is not None
                await self._disown(target, present, owner)
                return False
            case RemovalAction.DELETE:
                assert present is not None
                await self.objects.delete(target, present)
                return True
            case RemovalAction.WAIT:
                return True

    async def _disown(self, target: ObjectRef, present: Object, owner: Object) -> None:
        owners = choose_owner_references(present["metadata"], without=owner["uid"])
        patch = with_preconditions(present, {"metadata": {"ownerReferences": owners or None}})
        try:
            await self.objects.patch(target.resource, target.key, patch)
        except NotFound:
            return  # another client was faster


def owner_references_of(obj: Mapping[str, Any]) -> list[Object]:
    """Return the owner references of an object."""
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def is_owned_by(obj: Mapping[str, Any], uid: str) -> bool:
    """Whether one of the owners has that UID."""
    return any(row.get("uid") == uid for row in owner_references_of(obj))


class RemovalAction(Enum):
    """What to do with an object that is no longer wanted."""

    NOTHING = auto()  # it is gone, replaced, or not ours
    DISOWN = auto()
    DELETE = auto()
    WAIT = auto()


def decide_removal(applied: AppliedResource, present: Object | None, *, owner_uid: str, keep: bool) -> RemovalAction:
    """Decide about an object from what it says itself: only what carries our reference is ours to delete.

    A client that deleted and recreated it, took it over, or owns it with us must not lose it.
    """
    if present is None or (applied.uid and uid_of(present) != applied.uid) or not is_owned_by(present, owner_uid):
        return RemovalAction.NOTHING
    if keep or len(owner_references_of(present)) > 1:
        return RemovalAction.DISOWN
    return RemovalAction.WAIT if is_deleting(present) else RemovalAction.DELETE
