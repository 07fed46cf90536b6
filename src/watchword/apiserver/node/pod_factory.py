"""What the controllers of workloads share: pods from templates, owners, and Events about failures."""

import os
from abc import abstractmethod
from typing import ClassVar
from uuid import uuid4

from msgspec import Struct, field

from watchword.api.expiring_map import ExpiringMap
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, owner_reference, uid_of
from watchword.api.resources import CORE_EVENTS, PODS
from watchword.api.time import rfc3339
from watchword.apiserver.admission.catalog import ServiceAccountAdmission
from watchword.apiserver.controllers.event_expiry import EVENT_TTL
from watchword.apiserver.controllers.worker import Controller, Watches
from watchword.apiserver.serving.errors import resource_not_found
from watchword.apiserver.serving.model import ApiError, Now, Operation, Registry, User
from watchword.apiserver.serving.write import generated_name

CONTROLLER = User("system:kube-controller-manager")
FINISHED = ("Succeeded", "Failed")
RETRY_SECONDS = 5.0
"""Seconds until an operation that the API server refused is tried again."""


class NodeEvents(Struct):
    """Writes Events about workloads."""

    registry: Registry
    now: Now
    component: str
    _reported: ExpiringMap[tuple[str, str, str], bool] = field(default_factory=lambda: ExpiringMap(1024))

    async def warn(self, obj: Object, reason: str, message: str) -> None:
        """Record a warning, unless its Event is still there."""
        said, now = (uid_of(obj), reason, message), self.now()
        if self._reported.get(said, now=now.timestamp()):
            return
        self._reported.put(said, True, now=now.timestamp(), seconds=EVENT_TTL.total_seconds())
        metadata, instant = obj["metadata"], rfc3339(now)
        key = ObjectKey(metadata["namespace"], f"{metadata['name']}.{uuid4().hex[:16]}")
        event = CORE_EVENTS.manifest(
            key,
            involvedObject={
                "apiVersion": obj["apiVersion"],
                "kind": obj["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": uid_of(obj),
            },
            reason=reason,
            message=message,
            type="Warning",
            count=1,
            firstTimestamp=instant,
            lastTimestamp=instant,
            source={"component": self.component},
            reportingComponent=self.component,
            reportingInstance="",
        )
        try:
            await self.registry.create(CORE_EVENTS, event)
        except ApiError as refusal:
            if refusal.code not in {403, 404}:  # the namespace is being deleted
                raise


class PodFactory(Struct, frozen=True):
    """Creates the pods of a workload."""

    registry: Registry
    events: NodeEvents

    async def start(self, owner: Object, number: int = 1) -> float | None:
        """Create pods from a workload's template; return when to try again if the server refuses one."""
        try:
            for _ in range(number):
                await self.make(owner, owner["spec"]["template"])
        except ApiError as refusal:
            await self.events.warn(owner, "FailedCreate", f"Error creating: {refusal.message}")
            return RETRY_SECONDS
        return None

    async def make(self, owner: Object, template: Object) -> Object:
        """Create one pod; raises ApiError when the server refuses it."""
        prefix = f"{owner['metadata']['name'][:57]}-"
        key = ObjectKey(owner["metadata"]["namespace"], generated_name(prefix, os.urandom))
        metadata = {**controlled_metadata(owner, template), "generateName": prefix}
        pod = PODS.manifest(key, metadata=metadata, spec=dict(template.get("spec") or {}))
        kind = self.registry.kind(PODS.group, PODS.version, PODS.plural)
        if kind is None:
            raise resource_not_found()
        # The registry runs no admission, and a pod without its account's token could not authenticate.
        # Errors name the prefix only: a name that changes with each attempt would make each error a new one.
        await ServiceAccountAdmission(self.registry, os.urandom)(
            Operation("create", kind, ObjectKey(key.namespace, prefix), CONTROLLER, new=pod, old=None)
        )
        return await self.registry.create(PODS, pod)


def controlled_metadata(owner: Object, template: Object) -> Object:
    metadata = template.get("metadata") or {}
    return {
        "labels": dict(metadata.get("labels") or {}),
        "annotations": dict(metadata.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner, controller=True, block=True)],
    }


class WorkloadController(Controller[ObjectKey]):
    """Triggered by the workloads of one kind, and by the objects that they control."""

    resource: ClassVar[Resource]
    controlled: ClassVar[Resource]

    def watches(self) -> Watches:
        return {
            self.resource: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)),
            self.controlled: self._controlled_changed,
        }

    def _controlled_changed(self, _change: str, obj: Object) -> None:
        for ref in obj["metadata"].get("ownerReferences") or ():
            if ref.get("controller") and ref.get("kind") == self.resource.kind:
                self.worker.enqueue(ObjectKey(obj["metadata"]["namespace"], str(ref.get("name"))))

    async def sync(self, key: ObjectKey) -> float | None:
        found = self.registry.get(self.resource, key)
        return None if found is None or is_deleting(found) else await self.reconcile(found)

    @abstractmethod
    async def reconcile(self, found: Object) -> float | None:
        """Bring a workload in order that is not being deleted; return as `sync` does."""

    def controlled_by(self, owner: Object) -> list[Object]:
        return [
            obj
            for obj in self.registry.list(self.controlled, owner["metadata"]["namespace"])
            if any(
                ref.get("controller") and ref.get("uid") == uid_of(owner)
                for ref in obj["metadata"].get("ownerReferences") or ()
            )
        ]


def is_active(pod: Object) -> bool:
    return not is_deleting(pod) and (pod.get("status") or {}).get("phase") not in FINISHED
