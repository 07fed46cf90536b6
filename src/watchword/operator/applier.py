"""Applies rendered objects to the cluster: only differences, never over another owner's."""

import hashlib
from collections.abc import Iterable, Sequence

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Manifest, Object, ObjectKey, Resource, annotations_of, is_deleting, labels_of, uid_of
from watchword.api.resources import DEPLOYMENTS, NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from watchword.operator.rendering import MANAGED_BY
from watchword.runtime.diff import Comparison
from watchword.runtime.ensure import ApplyPolicy, apply_object
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Reader

OWNER_ANNOTATION = "operator.watchword.dev/owner"
RENDERED_ANNOTATION = "operator.watchword.dev/rendered"
OCM_APPS = frozenset({"klusterlet-agent", "clustermanager-grpc-server"})
"""The label `app` by which Deployments of Open Cluster Management's operator that have our names select their pods."""

OWN_OBJECTS = ApplyPolicy(comparison=Comparison.CONTAINS, manager=MANAGED_BY, force=True)


def owner_annotation(owner: Object) -> str:
    return f"{owner['kind']}/{owner['metadata']['name']}"


def owners_of(obj: Object, kind: str) -> list[ObjectKey]:
    named, _, name = annotations_of(obj).get(OWNER_ANNOTATION, "").partition("/")
    return [ObjectKey.cluster(name)] if name and named == kind else []


class OwnedObjectApplier(Struct, frozen=True):
    """Applies and removes what was rendered for one owner."""

    reader: Reader
    client: Client

    async def apply(self, owner: Object, manifests: Iterable[Manifest]) -> list[Manifest]:
        """Make every object as rendered and return them; `NameConflict` when one has another owner."""
        return [(resource, await self._apply(owner, resource, obj)) for resource, obj in manifests]

    async def remove(self, owner: Object, manifests: Sequence[Manifest]) -> list[str]:
        """Delete these objects in reverse order; return those that still exist."""
        waiting = []
        for resource, obj in reversed(manifests):
            present = self.reader.get(resource, ObjectKey.of(obj))
            if present is None or not is_owned(present, owner):
                continue
            if not is_deleting(present):
                await delete_exact(self.client, resource, present)
            waiting.append(f"{resource.plural}/{obj['metadata']['name']}")
        return waiting

    async def _apply(self, owner: Object, resource: Resource, obj: Object) -> Object:
        if resource is NAMESPACES:
            return await self._ensure_namespace(owner, obj)
        wanted, key = with_owner(obj, owner), ObjectKey.of(obj)
        present = self.reader.get(resource, key)
        if present is not None and is_owned(present, owner):
            return await apply_object(self.client, resource, wanted, present, OWN_OBJECTS)
        try:
            # Without force: fields of other managers on an object of this name stay as they are.
            return await apply_object(self.client, resource, wanted, None, replace(OWN_OBJECTS, force=False))
        except (Conflict, Invalid) as cause:
            found = await self.client.get(resource, key)
            if resource is DEPLOYMENTS and is_of_ocm(found):  # its selector cannot be changed
                await delete_exact(self.client, resource, found)
                raise BeingDeleted(
                    f"Deployment {key} of Open Cluster Management's operator is being replaced"
                ) from cause
            if isinstance(cause, Invalid):
                raise
            if labels_of(found).get("app.kubernetes.io/managed-by") != MANAGED_BY:
                message = f"{resource.kind} {key} exists and is not the operator's: rename or remove it"
                raise NameConflict(message) from cause
            return await apply_object(self.client, resource, wanted, found, OWN_OBJECTS)

    async def _ensure_namespace(self, owner: Object, obj: Object) -> Object:
        name = obj["metadata"]["name"]
        known = self.reader.get(NAMESPACES, ObjectKey.of(obj))
        lived_in = any(self.reader.list(kind, namespace=name) for kind in (SERVICE_ACCOUNTS, ROLE_BINDINGS))
        if known is not None or lived_in:  # where something of ours is, there is a namespace
            return known or obj
        try:
            return await self.client.create(NAMESPACES, with_owner(obj, owner))
        except (AlreadyExists, Forbidden):
            return obj  # the administrator's; when it is missing, applying its content reports that


def is_of_ocm(deployment: Object) -> bool:
    """Whether Open Cluster Management's operator has made a Deployment, for the same owner under the same name."""
    selector = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    is_ours = labels_of(deployment).get("app.kubernetes.io/managed-by") == MANAGED_BY
    return not is_ours and selector.get("app") in OCM_APPS


def with_owner(obj: Object, owner: Object) -> Object:
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), "app.kubernetes.io/managed-by": MANAGED_BY}
    annotations = {
        **(metadata.get("annotations") or {}),
        OWNER_ANNOTATION: owner_annotation(owner),
        RENDERED_ANNOTATION: hashlib.sha256(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16],
    }
    return {**obj, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def is_owned(obj: Object, owner: Object) -> bool:
    return annotations_of(obj).get(OWNER_ANNOTATION) == owner_annotation(owner)


async def delete_exact(client: Client, resource: Resource, obj: Object) -> None:
    """Delete exactly this object; a Deployment is deleted after its pods, which could otherwise write once more."""
    propagation = "Foreground" if resource is DEPLOYMENTS else "Background"
    try:
        await client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj), propagation=propagation)
    except (NotFound, Conflict):
        return  # gone, or another by now
