"""Keeps the hub's controllers deployed as their ClusterManager specifies, and reports their state."""

from collections.abc import Iterable
from datetime import timedelta

from msgspec import Struct

from watchword.api.accounts import ACCOUNTS_GATE
from watchword.api.conditions import Condition
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, finalizers_of, is_deleting
from watchword.api.names import HUB_NAMESPACE, Finalizer
from watchword.api.resources import CLUSTER_MANAGERS, DEPLOYMENTS, NAMESPACES
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict
from watchword.operator import conditions
from watchword.operator.applier import OWNER_ANNOTATION, OwnedObjectApplier, delete_exact, owner_annotation
from watchword.operator.cluster_manager_manifests import accounts_binding, hub_manifests
from watchword.operator.conditions import describe_failure, report_status
from watchword.operator.feature_gates import HUB_FEATURES, is_enabled
from watchword.operator.rendering import OPERATOR, image_of_operator
from watchword.operator.validation import validate_cluster_manager
from watchword.runtime.ensure import add_finalizer, remove_finalizer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

RECHECK = timedelta(seconds=5)


class ClusterManagerReconciler(Struct, frozen=True):
    """Reconciles ClusterManager; triggered by what was deployed for it."""

    reader: Reader
    client: Client
    status: StatusWriter
    image: str = ""  # empty: that of the operator itself

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Deploy the hub, or remove its controllers; clusters and their kinds stay."""
        found = self.reader.get(CLUSTER_MANAGERS, key)
        if found is None:
            return Done()
        applier = OwnedObjectApplier(self.reader, self.client)
        if is_deleting(found):
            return await self._remove(found, applier)
        objection = validate_cluster_manager(found)
        if objection is not None:  # what runs keeps running
            applied = Condition.false(conditions.APPLIED, objection.reason, objection.message)
            await self._report(found, [applied])
            return Done()
        found = await add_finalizer(self.client, CLUSTER_MANAGERS, found, Finalizer.CLUSTER_MANAGER)
        return await self._deploy(found, applier)

    async def _deploy(self, found: Object, applier: OwnedObjectApplier) -> Outcome:
        try:
            image = self.image or image_of_operator(self.reader.get(DEPLOYMENTS, OPERATOR))
            rows = await applier.apply(found, hub_manifests(found, image=image))
            if not is_enabled(found, ACCOUNTS_GATE):
                await applier.remove(found, [accounts_binding(found)])
        except (ApiStatusError, BeingDeleted, NameConflict) as error:
            if isinstance(error, Conflict):
                raise
            message = await describe_failure(self.client, error, HUB_NAMESPACE, remedy="watchword init")
            applied = Condition.false(conditions.APPLIED, "ClusterManagerApplyFailed", message)
            await self._report(found, [applied])
            raise
        applied = Condition.true(conditions.APPLIED, "ClusterManagerApplied", "everything is as the spec says")
        await self._report(found, [applied, *decide_hub_conditions(rows)], rows)
        return Done()

    async def _remove(self, found: Object, applier: OwnedObjectApplier) -> Outcome:
        if Finalizer.CLUSTER_MANAGER not in finalizers_of(found):
            return Done()
        rows = [row for row in (*hub_manifests(found), accounts_binding(found)) if row[0] is not NAMESPACES]
        first = [row for row in rows if row[0] is DEPLOYMENTS]
        waiting = await applier.remove(found, first) or await applier.remove(found, rows)
        if waiting:
            message = f"waiting for {', '.join(waiting)} to be gone"
            await self._report(found, [Condition.false(conditions.APPLIED, "ClusterManagerDeleting", message)])
            return RetryAfter(RECHECK)
        place = self.reader.get(NAMESPACES, ObjectKey.cluster(HUB_NAMESPACE))
        if (
            place is not None
            and annotations_of(place).get(OWNER_ANNOTATION) == owner_annotation(found)
            and not is_deleting(place)
        ):
            await delete_exact(self.client, NAMESPACES, place)
        await remove_finalizer(self.client, CLUSTER_MANAGERS, found, Finalizer.CLUSTER_MANAGER)
        return Done()

    async def _report(self, found: Object, said: list[Condition], rows: Iterable[Manifest] = ()) -> None:
        features = conditions.decide_feature_gates(found, HUB_FEATURES)
        await report_status(self.status, CLUSTER_MANAGERS, found, [*said, features], rows)


def decide_hub_conditions(rows: Iterable[Manifest]) -> list[Condition]:
    hub = next((obj for resource, obj in rows if resource is DEPLOYMENTS), None)
    rollout = conditions.describe_rollout(hub)
    progressing = Condition.false(conditions.PROGRESSING, "ClusterManagerUpToDate", "all pods run the newest spec")
    if rollout:
        progressing = Condition.true(conditions.PROGRESSING, "ClusterManagerDeploymentRolling", rollout)
    return [
        progressing,
        conditions.decide_available(hub, "ClusterManagerAvailable"),
        conditions.decide_degraded(conditions.HUB_REGISTRATION_DEGRADED, hub),
    ]
