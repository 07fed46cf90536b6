"""Brings single objects of a work to the managed cluster, by the strategy that the work asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from watchword.agent.work.difference import choose_changes, excerpt
from watchword.agent.work.errors import NotPermitted, UnreadablePath
from watchword.agent.work.executor import READING, REMOVING, WRITING, Permits, is_escalating
from watchword.agent.work.ignoring import choose_applied
from watchword.agent.work.manifests import Placed, Target, digest_of
from watchword.agent.work.objects import Objects
from watchword.agent.work.outcomes import Again, Outcome, Reason
from watchword.agent.work.ownership import choose_owners, is_owned_by
from watchword.agent.work.refusals import describe, is_field_conflict
from watchword.agent.work.treatment import FIELD_MANAGER, Strategy, Treatment
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.names import Annotation
from watchword.kube.client import Client
from watchword.kube.errors import (
    AlreadyExists,
    ApiStatusError,
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    ServerError,
    Unsupported,
)
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


@dataclass
class Applier:
    """Remembers what it has applied, so that a look at an unchanged object costs no request."""

    objects: Objects
    permits: Permits
    _digests: dict[Target, str] = field(default_factory=dict, init=False)
    _residues: dict[Target, str] = field(default_factory=dict, init=False)
    _plain: dict[Target, str] = field(default_factory=dict, init=False)  # manifests that cannot be declared

    async def apply(self, order: Order) -> Outcome:
        """Bring one object over; never raises for what concerns that object alone."""
        try:
            await self.permits.require(order.executor, READING, order.target)
            return Outcome(await self._strategy(order)(order))
        except NotPermitted as refusal:
            return Outcome.failed(str(refusal), Again.IN_A_MINUTE)
        except UnreadablePath as refusal:
            return Outcome.failed(str(refusal), Again.WHEN_CHANGED, Reason.IGNORE_FIELD_ERROR)
        except BeingDeleted as refusal:
            return Outcome.failed(str(refusal), Again.WITH_BACKOFF)
        except ApiStatusError as refusal:
            final = isinstance(refusal, Conflict) and is_field_conflict(refusal)
            again = Again.WHEN_CHANGED if final else Again.WITH_BACKOFF
            return Outcome.failed(describe(refusal, order.target), again, error=refusal)

    def forget(self, target: Target) -> None:
        """Remember nothing about an object."""
        self._digests.pop(target, None)
        self._residues.pop(target, None)
        self._plain.pop(target, None)

    def _strategy(self, order: Order) -> Callable[[Order], Awaitable[Object | None]]:
        return {
            Strategy.UPDATE: self._update,
            Strategy.CREATE_ONLY: self._create_only,
            Strategy.SERVER_SIDE_APPLY: self._server_side_apply,
            Strategy.READ_ONLY: self._read_only,
        }[order.treatment.strategy]

    async def _read_only(self, order: Order) -> Object | None:
        return await self.objects.read(order.target)

    async def _create_only(self, order: Order) -> Object:
        return await self._own(order, await self._create_or_read(order))

    async def _update(self, order: Order) -> Object:
        known = self._digests.get(order.target) == order.placed.digest
        present = await self.objects.read(order.target) if known or order.settled else None
        if present is not None:
            present = _lasting(present, order.target)
            # The first look since a start: what the server fills in by itself is not known yet, so it is believed.
            if not known and choose_update(order, present) is None:
                return self._remember(order, present)
            changes = choose_update(order, present, exactly=True)
            if changes is None or _residue(present, changes) == self._residues.get(order.target):
                return present
        return self._remember(order, _lasting(await self._declare(order), order.target))

    async def _declare(self, order: Order) -> Object:
        """Write what is wanted so that the server knows which fields are ours: what we leave out later goes then.

        Servers do not take everything this way that they take otherwise, repeated ports and misspelt fields for
        instance; such manifests are written as a difference.
        """
        body = order.wanted if order.orphaned else _with_owner(order.wanted, order.owner)
        if self._plain.get(order.target) != order.placed.digest:
            try:
                stored = await self._guarded(
                    order,
                    lambda by: self.objects.apply(order.target, body, manager=FIELD_MANAGER, force=True, by=by),
                )
                return await self._own(order, stored)
            except (BadRequest, MethodNotAllowed, Unsupported, ServerError):
                self._plain[order.target] = order.placed.digest
        present = await self._create_or_read(order)
        changes = choose_update(order, present)
        return present if changes is None else await self._patch(order, present, changes)

    def _remember(self, order: Order, stored: Object) -> Object:
        """Keep in mind what the server keeps its own way, as `1000m` becomes `1`: asking again would change nothing."""
        self._digests[order.target] = order.placed.digest
        left = choose_update(order, stored, exactly=True)
        if left is None:
            self._residues.pop(order.target, None)
        else:
            self._residues[order.target] = _residue(stored, left)
        return stored

    async def _server_side_apply(self, order: Order) -> Object:
        treatment, target = order.treatment, order.target
        present = await self.objects.read(target) if order.recorded or treatment.ignored else None
        digest = order.placed.digest
        applied, depends = choose_applied(order.wanted, present, treatment.ignored, digest=digest)
        body = _declared(order, applied, digest)
        if present is not None:
            changes = _undeclared(order, present, body)
            if changes is None or _residue(present, changes) == self._residues.get(target):
                return present
            if depends:
                body = with_preconditions(present, body)
        stored = await self._guarded(
            order,
            lambda by: self.objects.apply(target, body, manager=treatment.manager, force=treatment.force, by=by),
        )
        left = _undeclared(order, stored, body)
        self._residues[target] = "" if left is None else _residue(stored, left)
        return stored

    async def _own(self, order: Order, present: Object) -> Object:
        """Make an object carry our reference, or not when it is orphaned."""
        owners = choose_owners(present, order.owner, orphaned=order.orphaned)
        if owners is None:
            return present
        return await self._patch(order, present, {"metadata": {"ownerReferences": owners or None}})

    async def _create_or_read(self, order: Order) -> Object:
        """Return the object, made when it is missing; what was never applied is not asked for first."""
        target = order.target
        present = await self.objects.read(target) if order.recorded else None
        if present is None:
            body = order.wanted if order.orphaned else _with_owner(order.wanted, order.owner)
            try:
                return await self._guarded(order, lambda by: self.objects.create(target, body, by=by))
            except AlreadyExists:
                present = await self.objects.fetch(target)
                if present is None:
                    raise
        return _lasting(present, target)

    async def _patch(self, order: Order, present: Object, changes: Object) -> Object:
        patch = with_preconditions(present, changes)
        return await self._guarded(order, lambda by: self.objects.patch(order.target, patch, by=by))

    async def _guarded(self, order: Order, write: Try) -> Object:
        """Write, once the executor may; rights are granted only when the executor itself could grant them."""
        await self.permits.require(order.executor, order.verbs, order.target)
        if order.executor is not None and is_escalating(order.target):
            try:
                await write(self.permits.acting_as(order.executor))
            except Forbidden as refusal:
                raise NotPermitted(f"the executor {order.executor} may not grant what {order.target} grants") from (
                    refusal
                )
        return await write(None)


def choose_update(order: Order, present: Object, *, exactly: bool = False) -> Object | None:
    """Return the merge patch that makes an object what a work wants it to be; None when it is."""
    changes = choose_changes(present, order.wanted, exactly=exactly) or {}
    owners = choose_owners(present, order.owner, orphaned=order.orphaned)
    if owners is not None:
        changes["metadata"] = {**changes.get("metadata", {}), "ownerReferences": owners or None}
    return changes or None


def _residue(present: Object, changes: Object) -> str:
    return digest_of([changes, excerpt(present, changes)])


def _with_owner(wanted: Object, owner: Object) -> Object:
    return {**wanted, "metadata": {**wanted["metadata"], "ownerReferences": [owner]}}


def _declared(order: Order, applied: Object, digest: str) -> Object:
    """Return what is declared by server-side apply: with our mark, and our reference unless it is orphaned."""
    annotations = {**(applied["metadata"].get("annotations") or {}), Annotation.APPLIED_DIGEST: digest}
    body = {**applied, "metadata": {**applied["metadata"], "annotations": annotations}}
    return body if order.orphaned else _with_owner(body, order.owner)


def _undeclared(order: Order, present: Object, body: Object) -> Object | None:
    """Return what an object lacks of what would be declared; None when it holds everything."""
    if is_owned_by(present, order.owner["uid"]) is order.orphaned:
        return {"metadata": {"ownerReferences": order.owner}}
    return choose_changes(present, body)


def _lasting(present: Object, target: Target) -> Object:
    if is_deleting(present):
        raise BeingDeleted(f"{target} is being deleted; it is applied again once it is gone")
    return present
