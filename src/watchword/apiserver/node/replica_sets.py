"""Keeps the requested number of pods of a replica set."""

from __future__ import annotations

from datetime import datetime, timedelta

from watchword.api.conditions import Condition, find_condition, is_true, merge_condition, without_condition
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.resources import PODS
from watchword.apiserver.controllers.worker import Watches, Worker, delete_if_unchanged
from watchword.apiserver.kinds.catalog_workloads import REPLICA_SETS
from watchword.apiserver.model import ApiError, Now, Registry
from watchword.apiserver.node.events import NodeEvents
from watchword.apiserver.node.pod_factory import PodFactory, controlled_by, controller_of, is_active
from watchword.apiserver.node.timestamps import transition_time

LOOK_AGAIN = 5.0


class ReplicaSetController:
    """Triggered by replica sets and their pods."""

    def __init__(self, registry: Registry, pod_factory: PodFactory, events: NodeEvents, now: Now) -> None:
        self.registry = registry
        self.pod_factory = pod_factory
        self.events = events
        self.now = now
        self.worker: Worker[ObjectKey] = Worker("replica sets", self.sync)

    def watches(self) -> Watches:
        """Subscribe to replica sets and pods."""
        return {
            REPLICA_SETS: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)),
            PODS: self._pod_changed,
        }

    def _pod_changed(self, _change: str, new: Object) -> None:
        owner = controller_of(new, "ReplicaSet")
        if owner is not None:
            self.worker.enqueue(owner)

    async def sync(self, key: ObjectKey) -> float | None:
        """Create what is missing, delete what is too much, count what is there."""
        found = self.registry.get(REPLICA_SETS, key)
        if found is None or is_deleting(found):
            return None
        pods = [pod for pod in controlled_by(self.registry, PODS, found) if is_active(pod)]
        failure = None
        try:
            await self._scale(found, pods)
        except ApiError as refusal:
            failure = refusal.message
            await self.events.warn(found, "FailedCreate", f"Error creating: {refusal.message}")
        pods = [pod for pod in controlled_by(self.registry, PODS, found) if is_active(pod)]
        await self._report(found, pods, failure)
        waits = [wait for pod in pods if (wait := available_in(pod, found, self.now())) not in (None, 0.0)]
        return LOOK_AGAIN if failure else min((wait for wait in waits if wait), default=None)

    async def _scale(self, found: Object, pods: list[Object]) -> None:
        wanted = int(found["spec"].get("replicas") or 0)
        for _ in range(wanted - len(pods)):
            await self.pod_factory.make(found, found["spec"]["template"])
        for pod in choose_surplus(pods, len(pods) - wanted):
            await delete_if_unchanged(self.registry, PODS, pod)

    async def _report(self, found: Object, pods: list[Object], failure: str | None) -> None:
        now, old = self.now(), found.get("status") or {}
        wanted_labels = (found["spec"]["template"].get("metadata") or {}).get("labels") or {}
        status: Object = {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(1 for pod in pods if wanted_labels.items() <= labels_of(pod).items()),
            "readyReplicas": sum(1 for pod in pods if is_true(pod, "Ready")),
            "availableReplicas": sum(1 for pod in pods if available_in(pod, found, now) == 0.0),
            "observedGeneration": found["metadata"].get("generation"),
        }
        rows: list[Object] = old.get("conditions") or []
        if failure:
            condition = Condition.true("ReplicaFailure", "FailedCreate", failure)
            rows = merge_condition(rows, condition, now=now) or rows
        else:
            kept = without_condition(rows, "ReplicaFailure")
            rows = rows if kept is None else kept
        wanted = {**{name: value for name, value in status.items() if value}, "replicas": status["replicas"]}
        if rows:
            wanted["conditions"] = rows
        if wanted != old:
            await self.registry.update(REPLICA_SETS, {**found, "status": wanted}, "status")


def choose_surplus(pods: list[Object], number: int) -> list[Object]:
    """Return the pods that are missed least: those not bound, not ready, and the youngest."""
    if number <= 0:
        return []

    def worth(pod: Object) -> tuple[bool, bool]:
        return bool(pod["spec"].get("nodeName")), is_true(pod, "Ready")

    young_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
    return sorted(young_first, key=worth)[:number]


def available_in(pod: Object, owner: Object, now: datetime) -> float | None:
    """Return in how many seconds a pod is available: 0 when it is, None when it is not even ready."""
    ready = find_condition(pod, "Ready")
    if ready is None or ready.status != "True":
        return None
    since = transition_time((pod.get("status") or {}).get("conditions") or (), "Ready", now)
    patience = timedelta(seconds=int(owner["spec"].get("minReadySeconds") or 0))
    return max(0.0, (since + patience - now).total_seconds())
