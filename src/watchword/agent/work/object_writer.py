"""Writes single objects of a work with the rights of its executor, owned by the work's AppliedManifestWork."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchword.agent.work.diff import current_values
from watchword.agent.work.errors import NotPermitted
from watchword.agent.work.executor import DELETE_VERBS, WRITE_VERBS, ExecutorPermissions, is_escalating
from watchword.agent.work.manifest_config import ManifestConfig
from watchword.agent.work.manifests import ObjectRef, ResolvedManifest, manifest_digest
from watchword.agent.work.object_client import ObjectClient
from watchword.agent.work.ownership import choose_owner_references
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.errors import BeingDeleted

WriteAttempt = Callable[[Client | None], Awaitable[Object]]
"""One write, really done without a client, only tried with one."""


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One object to apply, and everything that decides how."""

    manifest: ResolvedManifest
    config: ManifestConfig
    owner: Object  # the reference to the work's record
    executor: ObjectKey | None = None
    orphaned: bool = False
    recorded: bool = False  # whether it has been applied before, so that it is likely there
    is_generation_applied: bool = False  # whether this very manifest has been applied before

    @property
    def target(self) -> ObjectRef:
        """The object."""
        return self.manifest.target

    @property
    def wanted(self) -> Object:
        """What is wanted of it."""
        return self.manifest.wanted

    @property
    def verbs(self) -> tuple[str, ...]:
        """What the executor must be allowed to do before anything is written."""
        return WRITE_VERBS if self.orphaned else (*WRITE_VERBS, *DELETE_VERBS)

    def with_owner_reference(self, body: Object) -> Object:
        """Return what is written: with our reference, unless the object outlives its work."""
        if self.orphaned:
            return body
        return {**body, "metadata": {**body["metadata"], "ownerReferences": [self.owner]}}


@dataclass(frozen=True)
class ObjectWriter:
    """Every write of every strategy goes through here."""

    objects: ObjectClient
    permissions: ExecutorPermissions

    async def create_or_read(self, step: ApplyStep) -> Object:
        """Return the object, made when it is missing; what was never applied is not asked for first."""
        target = step.target
        present = await self.objects.read(target) if step.recorded else None
        if present is None:
            body = step.with_owner_reference(step.wanted)
            try:
                return await self._write_if_permitted(step, lambda by: self.objects.create(target, body, by=by))
            except AlreadyExists:
                present = await self.objects.fetch(target)
                if present is None:
                    raise
        return require_not_deleting(present, target)

    async def server_side_apply(self, step: ApplyStep, body: Object, *, manager: str, force: bool) -> Object:
        """Write by server-side apply: the server knows which fields are ours, and what we leave out later goes."""
        return await self._write_if_permitted(
            step, lambda by: self.objects.apply(step.target, body, manager=manager, force=force, by=by)
        )

    async def patch(self, step: ApplyStep, present: Object, changes: Object) -> Object:
        """Change this very object as it was looked at."""
        patch = with_preconditions(present, changes)
        return await self._write_if_permitted(step, lambda by: self.objects.patch(step.target, patch, by=by))

    async def set_owner(self, step: ApplyStep, present: Object) -> Object:
        """Make an object carry our reference, or not when it is orphaned."""
        owners = choose_owner_references(present, step.owner, orphaned=step.orphaned)
        if owners is None:
            return present
        return await self.patch(step, present, {"metadata": {"ownerReferences": owners or None}})

    async def _write_if_permitted(self, step: ApplyStep, write: WriteAttempt) -> Object:
        """Write, once the executor may; rights are granted only when the executor itself could grant them."""
        await self.permissions.require(step.executor, step.verbs, step.target)
        if step.executor is not None and is_escalating(step.target):
            try:
                await write(self.permissions.impersonating(step.executor))
            except Forbidden as cause:
                message = f"the executor {step.executor} may not grant what {step.target} grants"
                raise NotPermitted(message) from cause
        return await write(None)


def require_not_deleting(present: Object, target: ObjectRef) -> Object:
    """Return an object that stays; raises `BeingDeleted`."""
    if is_deleting(present):
        raise BeingDeleted(f"{target} is being deleted; it is applied again once it is gone")
    return present


def server_change_digest(present: Object, changes: Object) -> str:
    """Return the fingerprint of a difference that the server insists on, as `1000m` becomes `1`.

    Asking again would change nothing; but what it insists on now is part of the fingerprint, so any other value counts.
    """
    return manifest_digest([changes, current_values(present, changes)])
