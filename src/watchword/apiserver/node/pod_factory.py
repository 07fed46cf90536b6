"""Makes pods from templates, as every workload's controller does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, owner_reference, uid_of
from watchword.api.resources import PODS
from watchword.apiserver.admission.service_accounts import ServiceAccountAdmission
from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.errors import resource_not_found
from watchword.apiserver.model import Operation, Registry, User

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
CONTROLLER = User("system:kube-controller-manager")
FINISHED = ("Succeeded", "Failed")


class PodFactory(Struct, frozen=True):
    """Creates the pods of a workload; raises ApiError when the server refuses one."""

    registry: Registry
    entropy: Callable[[int], bytes]

    async def make(self, owner: Object, template: Object, **annotations: str) -> Object:
        metadata = template.get("metadata") or {}
        name = f"{owner['metadata']['name'][:57]}-{self.suffix()}"
        key = ObjectKey(owner["metadata"]["namespace"], name)
        fields: dict[str, Any] = {
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
            "generateName": f"{owner['metadata']['name'][:57]}-",
            "ownerReferences": [owner_reference(owner, controller=True, block=True)],
        }
        pod = PODS.manifest(key, metadata=fields, spec=dict(template.get("spec") or {}))
        kind = self.registry.kind(PODS.group, PODS.version, PODS.plural)
        if kind is None:
            raise resource_not_found()
        # The registry runs no admission, and a pod without its account's token could not authenticate.
        # Errors name the prefix only: a name that changes with each attempt would make each error a new one.
        prefix = ObjectKey(key.namespace, fields["generateName"])
        await ServiceAccountAdmission(self.registry, self.entropy)(
            Operation("create", kind, prefix, CONTROLLER, new=pod, old=None)
        )
        return await self.registry.create(PODS, pod)

    def suffix(self) -> str:
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in self.entropy(5))


def controlled_by(registry: Registry, resource: Resource, owner: Object) -> list[Object]:
    return [
        obj
        for obj in registry.list(resource, owner["metadata"]["namespace"])
        if any(
            ref.get("controller") and ref.get("uid") == uid_of(owner)
            for ref in obj["metadata"].get("ownerReferences") or ()
        )
    ]


def controller_of(obj: Object, kind: str) -> ObjectKey | None:
    for ref in obj["metadata"].get("ownerReferences") or ():
        if ref.get("controller") and ref.get("kind") == kind:
            return ObjectKey(obj["metadata"]["namespace"], str(ref.get("name")))
    return None


def enqueue_owner(worker: Worker[ObjectKey], obj: Object, kind: str) -> None:
    owner = controller_of(obj, kind)
    if owner is not None:
        worker.enqueue(owner)


def is_active(pod: Object) -> bool:
    return not is_deleting(pod) and (pod.get("status") or {}).get("phase") not in FINISHED
