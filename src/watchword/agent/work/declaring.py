"""The strategy `ServerSideApply`: fields are declared, those of others are a conflict, some are left to the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from watchword.agent.work.difference import choose_changes
from watchword.agent.work.ignoring import choose_applied
from watchword.agent.work.manifests import Target
from watchword.agent.work.ownership import is_owned_by
from watchword.agent.work.writing import Order, Writer, residue
from watchword.api.meta import Object
from watchword.api.names import Annotation
from watchword.runtime.ensure import with_preconditions


@dataclass
class Declarer:
    """Remembers what the server keeps its own way, so that it is not asked for again and again."""

    writer: Writer
    _residues: dict[Target, str] = field(default_factory=dict, init=False)

    async def declare(self, order: Order) -> Object:
        """Return the object as it is afterwards; raises `Conflict` over fields of others, `UnreadablePath`."""
        treatment, target = order.treatment, order.target
        present = await self.writer.objects.read(target) if order.recorded or treatment.ignored else None
        applied, depends = choose_applied(order.wanted, present, treatment.ignored, digest=order.placed.digest)
        body = order.marked(_with_digest(applied, order.placed.digest))
        if present is not None:
            changes = _undeclared(order, present, body)
            if changes is None or residue(present, changes) == self._residues.get(target):
                return present
            if depends:  # what the cluster says was copied from this very version
                body = with_preconditions(present, body)
        stored = await self.writer.declare(order, body, manager=treatment.manager, force=treatment.force)
        left = _undeclared(order, stored, body)
        self._residues[target] = "" if left is None else residue(stored, left)
        return stored

    def forget(self, target: Target) -> None:
        """Remember nothing about an object."""
        self._residues.pop(target, None)


def _with_digest(applied: Object, digest: str) -> Object:
    annotations = {**(applied["metadata"].get("annotations") or {}), Annotation.APPLIED_DIGEST: digest}
    return {**applied, "metadata": {**applied["metadata"], "annotations": annotations}}


def _undeclared(order: Order, present: Object, body: Object) -> Object | None:
    """Return what an object lacks of what would be declared; None when it holds everything."""
    if is_owned_by(present, order.owner["uid"]) is order.orphaned:
        return {"metadata": {"ownerReferences": order.owner}}
    return choose_changes(present, body)
