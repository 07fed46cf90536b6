"""The hub's part in ManifestWorks: deletes completed works after their time to live."""

from datetime import datetime

from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey, is_deleting, mapping_at
from watchword.api.names import ConditionType
from watchword.api.resources import MANIFEST_WORKS
from watchword.api.time import parse_rfc3339
from watchword.api.validation import parse_seconds
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import delete_object
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, RetryAfter


def work_controllers(reader: Reader, client: Client, clock: Clock) -> list[ControllerSpec]:
    expiry = WorkExpiryReconciler(reader, client, clock)
    return [ControllerSpec("work-expiry", MANIFEST_WORKS, expiry, workers=2, concerns=_may_expire)]


class WorkExpiryReconciler(Struct, frozen=True):
    """Reconciles ManifestWork. Clusters may not delete their works, so the hub does it for them."""

    reader: Reader
    client: Client
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        work = self.reader.get(MANIFEST_WORKS, key)
        due = None if work is None or is_deleting(work) else decide_work_expiry(work)
        if work is None or due is None:
            return Done()
        if due > self.clock.now():
            return RetryAfter(due - self.clock.now())
        await delete_object(self.client, MANIFEST_WORKS, work)
        return Done()


def _may_expire(work: Object) -> bool:
    return decide_work_expiry(work) is not None


def decide_work_expiry(work: Object) -> datetime | None:
    """Return the instant after which a work is not wanted any more; None when there is none."""
    ttl = parse_seconds(mapping_at(work, "spec", "deleteOption").get("ttlSecondsAfterFinished"))
    if ttl is None:
        return None
    for row in conditions_of(work):
        if row.get("type") == ConditionType.WORK_COMPLETE and row.get("status") == "True":
            since = parse_rfc3339(str(row.get("lastTransitionTime") or ""))
            return None if since is None else since + ttl
    return None
