"""Takes a deleted work off the managed cluster before the hub may forget it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from watchword.agent.work.ledger import Ledger
from watchword.agent.work.ownership import applied_in
from watchword.agent.work.releasing import Refusal, Releaser
from watchword.agent.work.report import LONGEST_MESSAGE
from watchword.agent.work.treatment import is_orphaned
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, finalizers_of, is_deleting, owner_reference
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.errors import NotFound
from watchword.runtime.connection import Connection
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, RetryAfter

RECHECK = timedelta(seconds=30)


@dataclass(frozen=True)
class Withdrawal:
    """Removes the record, whose own finalizer waits for the objects, then the work's finalizer."""

    hub: Connection
    ledger: Ledger
    releaser: Releaser

    async def withdraw(self, work: Object) -> Outcome:
        """Bring a work that is being deleted one step closer to its end."""
        if Finalizer.MANIFEST_WORK not in finalizers_of(work):
            return Done()
        name = work["metadata"]["name"]
        record = self.ledger.find(name)
        if record is None:
            await self._let_go(work)
            return Done()
        record = await self.ledger.adopt(record, name)
        if not is_deleting(record):
            refusal = await self._orphan(work, record)
            if refusal is not None:
                await self._say(work, record, f"; {refusal}")
                raise refusal.error
            await self.ledger.close(record)
        refused = self.releaser.refusals.get(ObjectKey.of(record))
        await self._say(work, record, f"; {refused}" if refused else "")
        return RetryAfter(RECHECK)

    async def _say(self, work: Object, record: Object, refused: str) -> None:
        message = f"waiting for {len(applied_in(record))} objects to be gone{refused}"
        deleting = Condition.true(ConditionType.DELETING, "WorkDeleting", message[:LONGEST_MESSAGE])
        await self.hub.status.set_condition(MANIFEST_WORKS, work, deleting)

    async def _orphan(self, work: Object, record: Object) -> Refusal | None:
        """Disown what is to stay: the wish may have come together with the deletion."""
        spec = work.get("spec") or {}
        located = await self.releaser.locate(applied_in(record))
        kept = {one: target for one, target in located.items() if is_orphaned(spec, target)}
        _, refusal = await self.releaser.release(kept, owner_reference(record), keep=lambda _: True)
        return refusal

    async def _let_go(self, work: Object) -> None:
        kept = [name for name in finalizers_of(work) if name != Finalizer.MANIFEST_WORK]
        patch = with_preconditions(work, {"metadata": {"finalizers": kept or None}})
        try:
            await self.hub.client.patch(MANIFEST_WORKS, ObjectKey.of(work), patch)
        except NotFound:
            return  # it is gone already
