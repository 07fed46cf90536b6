"""Lets go of objects that are no longer wanted, without harming what others own or made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from watchword.agent.work.api_errors import describe_api_error
from watchword.agent.work.manifests import ObjectRef
from watchword.agent.work.object_client import ObjectClient
from watchword.agent.work.ownership import AppliedResource, RemovalAction, choose_owner_references, decide_removal
from watchword.agent.work.rest_mapper import RestMapper
from watchword.api.meta import Object, ObjectKey
from watchword.kube.errors import ApiStatusError, NotFound
from watchword.runtime.ensure import with_preconditions


@dataclass(frozen=True, slots=True)
class RemovalFailure:
    """Why an object could not be let go."""

    target: ObjectRef
    error: ApiStatusError

    def __str__(self) -> str:
        return f"{self.target} cannot be removed: {describe_api_error(self.error, self.target)}"


@dataclass(frozen=True)
class ObjectRemover:
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
        owners = choose_owner_references(present, owner, orphaned=True)
        patch = with_preconditions(present, {"metadata": {"ownerReferences": owners or None}})
        try:
            await self.objects.patch(target, patch)
        except NotFound:
            return  # somebody was faster
