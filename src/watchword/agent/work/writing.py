"""Writes single objects on behalf of a work: never more than its executor may, and marked as the work's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchword.agent.work.difference import excerpt
from watchword.agent.work.errors import NotPermitted
from watchword.agent.work.executor import REMOVING, WRITING, Permits, is_escalating
from watchword.agent.work.manifests import Placed, Target, digest_of
from watchword.agent.work.objects import Objects
from watchword.agent.work.ownership import choose_owners
from watchword.agent.work.treatment import Treatment
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.errors import BeingDeleted

Try = Callable[[Client | None], Awaitable[Object]]
"""One write, really done without a client, only tried with one."""


@dataclass(frozen=True, slots=True)
class Order:
    """One object to apply, and everything that decides how."""

    placed: Placed
    treatment: Treatment
    owner: Object  # the reference to the work's record
    executor: ObjectKey | None = None
    orphaned: bool = False
    recorded: bool = False  # whether it has been applied before, so that it is likely there
    settled: bool = False  # whether this very manifest has been applied before

    @property
    def target(self) -> Target:
        """The object."""
        return self.placed.target

    @property
    def wanted(self) -> Object:
        """What is wanted of it."""
        return self.placed.wanted

    @property
    def verbs(self) -> tuple[str, ...]:
        """What the executor must be allowed to do before anything is written."""
        return WRITING if self.orphaned else (*WRITING, *REMOVING)

    def marked(self, body: Object) -> Object:
        """Return what is written: with our reference, unless the object outlives its work."""
        if self.orphaned:
            return body
        return {**body, "metadata": {**body["metadata"], "ownerReferences": [self.owner]}}


@dataclass(frozen=True)
class Writer:
    """Every write of every strategy goes through here."""

    objects: Objects
    permits: Permits

    async def create_or_read(self, order: Order) -> Object:
        """Return the object, made when it is missing; what was never applied is not asked for first."""
        target = order.target
        present = await self.objects.read(target) if order.recorded else None
        if present is None:
            body = order.marked(order.wanted)
            try:
                return await self._guarded(order, lambda by: self.objects.create(target, body, by=by))
            except AlreadyExists:
                present = await self.objects.fetch(target)
                if present is None:
                    raise
        return lasting(present, target)

    async def declare(self, order: Order, body: Object, *, manager: str, force: bool) -> Object:
        """Write by server-side apply: the server knows which fields are ours, and what we leave out later goes."""
        return await self._guarded(
            order, lambda by: self.objects.apply(order.target, body, manager=manager, force=force, by=by)
        )

    async def patch(self, order: Order, present: Object, changes: Object) -> Object:
        """Change this very object as it was looked at."""
        patch = with_preconditions(present, changes)
        return await self._guarded(order, lambda by: self.objects.patch(order.target, patch, by=by))

    async def own(self, order: Order, present: Object) -> Object:
        """Make an object carry our reference, or not when it is orphaned."""
        owners = choose_owners(present, order.owner, orphaned=order.orphaned)
        if owners is None:
            return present
        return await self.patch(order, present, {"metadata": {"ownerReferences": owners or None}})

    async def _guarded(self, order: Order, write: Try) -> Object:
        """Write, once the executor may; rights are granted only when the executor itself could grant them."""
        await self.permits.require(order.executor, order.verbs, order.target)
        if order.executor is not None and is_escalating(order.target):
            try:
                await write(self.permits.acting_as(order.executor))
            except Forbidden as cause:
                message = f"the executor {order.executor} may not grant what {order.target} grants"
                raise NotPermitted(message) from cause
        return await write(None)


def lasting(present: Object, target: Target) -> Object:
    """Return an object that stays; raises `BeingDeleted`."""
    if is_deleting(present):
        raise BeingDeleted(f"{target} is being deleted; it is applied again once it is gone")
    return present


def residue(present: Object, changes: Object) -> str:
    """Return the fingerprint of a difference that the server insists on, as `1000m` becomes `1`.

    Asking again would change nothing; but what it insists on now is part of the fingerprint, so any other value counts.
    """
    return digest_of([changes, excerpt(present, changes)])
