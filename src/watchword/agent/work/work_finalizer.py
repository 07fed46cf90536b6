"""Takes a deleted work off the managed cluster before the hub may forget it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from watchword.agent.work.applied_work_store import AppliedWorkStore
from watchword.agent.work.manifest_config import is_orphaned
from watchword.agent.work.object_remover import ObjectRemover, RemovalFailure
from watchword.agent.work.ownership import read_applied_resources
from watchword.agent.work.status import MAX_MESSAGE_LENGTH
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, finalizers_of, is_deleting, owner_reference
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.errors import NotFound
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, RetryAfter

RECHECK = timedelta(seconds=30)


@dataclass(frozen=True)
class WorkFinalizer:
    """Removes the record, whose own finalizer waits for the objects, then the work's finalizer."""

    hub: ApiServerConnection
    applied_work_store: AppliedWorkStore
    remover: ObjectRemover

    async def finalize(self, work: Object) -> Outcome:
        """Bring a work that is being deleted one step closer to its end."""
        if Finalizer.MANIFEST_WORK not in finalizers_of(work):
            return Done()
        name = work["metadata"]["name"]
        record = self.applied_work_store.find(name)
        if record is None:
            await self._remove_finalizer(work)
            return Done()
        record = await self.applied_work_store.adopt(record, name)
        if not is_deleting(record):
            refusal = await self._release_orphans(work, record)
            if refusal is not None:
                await self._set_deleting_condition(work, record, f"; {refusal}")
                raise refusal.error
            await self.applied_work_store.delete(record)
        refused = self.remover.failures.get(ObjectKey.of(record))
        await self._set_deleting_condition(work, record, f"; {refused}" if refused else "")
        return RetryAfter(RECHECK)

    async def _set_deleting_condition(self, work: Object, record: Object, refused: str) -> None:
        message = f"waiting for {len(read_applied_resources(record))} objects to be gone{refused}"
        deleting = Condition.true(ConditionType.DELETING, "WorkDeleting", message[:MAX_MESSAGE_LENGTH])
        await self.hub.status.set_condition(MANIFEST_WORKS, work, deleting)

    async def _release_orphans(self, work: Object, record: Object) -> RemovalFailure | None:
        """Disown what is to stay: the wish may have come together with the deletion."""
        spec = work.get("spec") or {}
        located = await self.remover.resolve(read_applied_resources(record))
        kept = {one: target for one, target in located.items() if is_orphaned(spec, target)}
        _, refusal = await self.remover.remove(kept, owner_reference(record), keep=lambda _: True)
        return refusal

    async def _remove_finalizer(self, work: Object) -> None:
        kept = [name for name in finalizers_of(work) if name != Finalizer.MANIFEST_WORK]
        patch = with_preconditions(work, {"metadata": {"finalizers": kept or None}})
        try:
            await self.hub.client.patch(MANIFEST_WORKS, ObjectKey.of(work), patch)
        except NotFound:
            return  # it is gone already
