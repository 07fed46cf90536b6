"""Keeps the hub's controllers deployed as their ClusterManager says, and says how they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from watchword.api.conditions import Condition
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, finalizers_of, is_deleting
from watchword.api.names import HUB_NAMESPACE, Finalizer
from watchword.api.resources import CLUSTER_MANAGERS, DEPLOYMENTS, NAMESPACES
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict
from watchword.operator import conditions
from watchword.operator.application import OWNER, Application, delete_this, owner_mark
from watchword.operator.cluster_manager_manifests import bound_hub_manifests, gates_of
from watchword.operator.features import HUB_FEATURES
from watchword.operator.rendering import IMAGE
from watchword.operator.reporting import hold, release, report
from watchword.operator.specs import judge_cluster_manager
from watchword.runtime.errors import NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

RECHECK = timedelta(seconds=5)


@dataclass(frozen=True)
class ClusterManagerReconciler:
    """Reconciles ClusterManager; woken by what was deployed for it."""

    reader: Reader
    client: Client
    status: StatusWriter
    image: str = IMAGE

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Deploy the hub, or remove its controllers; clusters and their kinds stay."""
        found = self.reader.get(CLUSTER_MANAGERS, key)
        if found is None:
            return Done()
        application = Application(self.reader, self.client)
        if is_deleting(found):
            return await self._remove(found, application)
        objection = judge_cluster_manager(found)
        if objection is not None:  # what runs keeps running
            applied = Condition.false(conditions.APPLIED, objection.reason, objection.message)
            await self._report(found, [applied])
            return Done()
        found = await hold(self.client, CLUSTER_MANAGERS, found, Finalizer.CLUSTER_MANAGER)
        return await self._deploy(found, application)

    async def _deploy(self, found: Object, application: Application) -> Outcome:
        try:
            rows = await application.apply(found, bound_hub_manifests(found, image=self.image))
        except (ApiStatusError, NameConflict) as trouble:
            if isinstance(trouble, Conflict):
                raise
            applied = Condition.false(conditions.APPLIED, "ClusterManagerApplyFailed", str(trouble))
            await self._report(found, [applied])
            raise
        applied = Condition.true(conditions.APPLIED, "ClusterManagerApplied", "everything is as the spec says")
        await self._report(found, [applied, *judge_hub(rows)], rows)
        return Done()

    async def _remove(self, found: Object, application: Application) -> Outcome:
        if Finalizer.CLUSTER_MANAGER not in finalizers_of(found):
            return Done()
        rows = [row for row in bound_hub_manifests(found) if row[0] is not NAMESPACES]
        first = [row for row in rows if row[0] is DEPLOYMENTS]
        waiting = await application.remove(found, first) or await application.remove(found, rows)
        if waiting:
            message = f"waiting for {', '.join(waiting)} to be gone"
            await self._report(found, [Condition.false(conditions.APPLIED, "ClusterManagerDeleting", message)])
            return RetryAfter(RECHECK)
        place = self.reader.get(NAMESPACES, ObjectKey.cluster(HUB_NAMESPACE))
        if place is not None and annotations_of(place).get(OWNER) == owner_mark(found) and not is_deleting(place):
            await delete_this(self.client, NAMESPACES, place)
        await release(self.client, CLUSTER_MANAGERS, found, Finalizer.CLUSTER_MANAGER)
        return Done()

    async def _report(self, found: Object, said: list[Condition], rows: Iterable[Manifest] = ()) -> None:
        features = conditions.judge_features(gates_of(found), HUB_FEATURES)
        await report(self.status, CLUSTER_MANAGERS, found, [*said, features], rows)


def judge_hub(rows: Iterable[Manifest]) -> list[Condition]:
    """Say whether the controllers run."""
    hub = next((obj for resource, obj in rows if resource is DEPLOYMENTS), None)
    missing, wanted = conditions.count_missing(hub)
    if missing:
        message = f"{missing} of {wanted} instances are not available yet"
        progressing = Condition.true(conditions.PROGRESSING, "ClusterManagerDeploymentRolling", message)
    else:
        progressing = Condition.false(conditions.PROGRESSING, "ClusterManagerUpToDate", "everything runs as wanted")
    return [
        progressing,
        conditions.judge_available(hub, "ClusterManagerAvailable"),
        conditions.judge_degraded(conditions.HUB_REGISTRATION_DEGRADED, hub),
    ]
