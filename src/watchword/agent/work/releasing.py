"""Lets go of objects that are no longer wanted, without harming what others own or made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from watchword.agent.work.catalog import Catalog
from watchword.agent.work.manifests import Target
from watchword.agent.work.objects import Objects
from watchword.agent.work.ownership import Applied, Release, choose_owners, judge_release
from watchword.agent.work.refusals import describe
from watchword.api.meta import Object, ObjectKey
from watchword.kube.errors import ApiStatusError, NotFound
from watchword.runtime.ensure import with_preconditions


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object could not be let go."""

    target: Target
    error: ApiStatusError

    def __str__(self) -> str:
        return f"{self.target} cannot be removed: {describe(self.error, self.target)}"


@dataclass(frozen=True)
class Releaser:
    """Deletes what is ours alone and gives up the rest."""

    objects: Objects
    catalog: Catalog
    refusals: dict[ObjectKey, str] = field(default_factory=dict)  # why a record cannot be emptied, while it cannot

    async def locate(self, applied: Iterable[Applied]) -> dict[Applied, Target]:
        """Return the objects of entries of a record, under the kinds by which they are followed.

        Kinds that are no longer served have no objects either, and are left out.
        """
        found: dict[Applied, Target] = {}
        for one in applied:
            resource = await self.catalog.resource(one.group, one.version, one.resource)
            if resource is not None:
                found[one] = Target(resource, one.target.key)
        return found

    async def release(
        self, targets: dict[Applied, Target], owner: Object, *, keep: Callable[[Target], bool]
    ) -> tuple[list[Applied], Refusal | None]:
        """Let go of each object that can be; return what is still there, and the first refusal if there was one."""
        left: list[Applied] = []
        trouble: Refusal | None = None
        for one, target in targets.items():
            try:
                is_left = await self._release(one, target, owner, keep=keep(target))
            except ApiStatusError as error:
                is_left, trouble = True, trouble or Refusal(target, error)
            if is_left:
                left.append(one)
        return left, trouble

    async def _release(self, applied: Applied, target: Target, owner: Object, *, keep: bool) -> bool:
        present = await self.objects.read(target)
        match judge_release(applied, present, owner_uid=owner["uid"], keep=keep):
            case Release.NOTHING:
                return False
            case Release.DISOWN:
                assert present is not None
                await self._disown(target, present, owner)
                return False
            case Release.DELETE:
                assert present is not None
                await self.objects.delete(target, present)
                return True
            case Release.WAIT:
                return True

    async def _disown(self, target: Target, present: Object, owner: Object) -> None:
        owners = choose_owners(present, owner, orphaned=True)
        patch = with_preconditions(present, {"metadata": {"ownerReferences": owners or None}})
        try:
            await self.objects.patch(target, patch)
        except NotFound:
            return  # somebody was faster
