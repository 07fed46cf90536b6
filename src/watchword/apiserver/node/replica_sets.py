"""Keeps the requested number of pods of a replica set."""

from __future__ import annotations

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.resources import PODS
from watchword.apiserver.controllers.worker import Watches, Worker, delete_if_unchanged
from watchword.apiserver.kinds.catalog import REPLICA_SETS
from watchword.apiserver.model import ApiError, Registry
from watchword.apiserver.node.events import NodeEvents
from watchword.apiserver.node.pod_factory import PodFactory, controlled_by, enqueue_owner, is_active

LOOK_AGAIN = 5.0


class ReplicaSetController:
    """Triggered by replica sets and their pods."""

    def __init__(self, registry: Registry, pod_factory: PodFactory, events: NodeEvents) -> None:
        self.registry = registry
        self.pod_factory = pod_factory
        self.events = events
        self.worker: Worker[ObjectKey] = Worker("replica sets", self.sync)

    def watches(self) -> Watches:
        """Subscribe to replica sets and pods."""
        return {
            REPLICA_SETS: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)),
            PODS: lambda _change, new: enqueue_owner(self.worker, new, "ReplicaSet"),
        }

    async def sync(self, key: ObjectKey) -> float | None:
        """Create what is missing, delete what is too much, count what is there."""
        found = self.registry.get(REPLICA_SETS, key)
        if found is None or is_deleting(found):
            return None
        wait = None
        try:
            await self._scale(found, self._pods(found))
        except ApiError as refusal:
            await self.events.warn(found, "FailedCreate", f"Error creating: {refusal.message}")
            wait = LOOK_AGAIN
        pods = self._pods(found)
        ready = sum(is_true(pod, "Ready") for pod in pods)
        numbers = {"fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        status = {name: number for name, number in numbers.items() if number} | {
            "replicas": len(pods),
            "observedGeneration": found["metadata"].get("generation"),
        }
        if status != found.get("status"):
            await self.registry.update(REPLICA_SETS, {**found, "status": status}, "status")
        return wait

    def _pods(self, found: Object) -> list[Object]:
        return [pod for pod in controlled_by(self.registry, PODS, found) if is_active(pod)]

    async def _scale(self, found: Object, pods: list[Object]) -> None:
        wanted = int(found["spec"].get("replicas") or 0)
        for _ in range(wanted - len(pods)):
            await self.pod_factory.make(found, found["spec"]["template"])
        for pod in choose_surplus(pods, len(pods) - wanted):
            await delete_if_unchanged(self.registry, PODS, pod)


def choose_surplus(pods: list[Object], number: int) -> list[Object]:
    """Return the pods that are missed least: those not bound, not ready, and the youngest."""
    if number <= 0:
        return []

    def worth(pod: Object) -> tuple[bool, bool]:
        return bool(pod["spec"].get("nodeName")), is_true(pod, "Ready")

    young_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
    return sorted(young_first, key=worth)[:number]
