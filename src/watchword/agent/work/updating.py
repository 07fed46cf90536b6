"""The strategy `Update`: what a manifest names is as it says, what it no longer names goes, all else stays."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from watchword.agent.work.difference import choose_changes
from watchword.agent.work.manifests import Target
from watchword.agent.work.ownership import choose_owners
from watchword.agent.work.treatment import FIELD_MANAGER
from watchword.agent.work.writing import Order, Writer, lasting, residue
from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError, BadRequest, MethodNotAllowed, Unsupported

DECLARE_AGAIN = 600.0
"""Seconds after which a manifest that could not be declared is tried once more: the server may have been in trouble."""


@dataclass
class Updater:
    """Remembers what it has applied, so that a look at an unchanged object costs no request."""

    writer: Writer
    _digests: dict[Target, str] = field(default_factory=dict, init=False)
    _residues: dict[Target, str] = field(default_factory=dict, init=False)
    _plain: dict[Target, float] = field(default_factory=dict, init=False)  # not declared, and until when it stays so

    async def update(self, order: Order) -> Object:
        """Return the object as it is afterwards."""
        target = order.target
        known = self._digests.get(target) == order.placed.digest
        doubtful = self._plain.get(target, float("inf")) <= asyncio.get_running_loop().time()
        present = await self.writer.objects.read(target) if (known or order.settled) and not doubtful else None
        if present is not None:
            present = lasting(present, target)
            # The first look since a start: what the server fills in by itself is not known yet, so it is believed.
            if not known and choose_update(order, present) is None:
                return self._remember(order, present)
            changes = choose_update(order, present, exactly=True)
            if changes is None or residue(present, changes) == self._residues.get(target):
                return present
        return self._remember(order, lasting(await self._write(order), target))

    def forget(self, target: Target) -> None:
        """Remember nothing about an object."""
        self._digests.pop(target, None)
        self._residues.pop(target, None)
        self._plain.pop(target, None)

    async def _write(self, order: Order) -> Object:
        try:
            stored = await self.writer.declare(order, order.marked(order.wanted), manager=FIELD_MANAGER, force=True)
        except ApiStatusError as refusal:
            if not is_undeclarable(refusal):
                raise
            self._plain[order.target] = asyncio.get_running_loop().time() + DECLARE_AGAIN
        else:
            self._plain.pop(order.target, None)
            return await self.writer.own(order, stored)
        present = await self.writer.create_or_read(order)
        changes = choose_update(order, present)
        return present if changes is None else await self.writer.patch(order, present, changes)

    def _remember(self, order: Order, stored: Object) -> Object:
        self._digests[order.target] = order.placed.digest
        left = choose_update(order, stored, exactly=True)
        self._residues[order.target] = "" if left is None else residue(stored, left)
        return stored


def choose_update(order: Order, present: Object, *, exactly: bool = False) -> Object | None:
    """Return the merge patch that makes an object what a work wants it to be; None when it is."""
    changes = choose_changes(present, order.wanted, exactly=exactly) or {}
    owners = choose_owners(present, order.owner, orphaned=order.orphaned)
    if owners is not None:
        changes["metadata"] = {**changes.get("metadata", {}), "ownerReferences": owners or None}
    return changes or None


def is_undeclarable(refusal: ApiStatusError) -> bool:
    """Whether a manifest may be one that a server takes only otherwise: with misspelt fields, or with repeated keys.

    It answers those with 500 and no reason; its own troubles have one.
    """
    bare = refusal.code == 500 and not refusal.reason
    return bare or isinstance(refusal, BadRequest | MethodNotAllowed | Unsupported)
