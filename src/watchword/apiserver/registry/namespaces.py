"""New content needs a namespace that exists and stays."""

from __future__ import annotations

from watchword.api.meta import ObjectKey, is_deleting
from watchword.api.resources import NAMESPACES
from watchword.apiserver.errors import forbidden, not_found
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.kind_table import KindTable
from watchword.apiserver.registry.object_storage import ObjectStorage


def require_namespace_open(objects: ObjectStorage, kinds: KindTable, kind: ResourceKind, key: ObjectKey) -> None:
    """Refuse a create in a namespace that is missing (404) or terminating (403)."""
    if not kind.resource.namespaced:
        return
    namespaces = kinds.find("", "v1", NAMESPACES.plural)
    if namespaces is None:
        return  # a plane without namespaces has nothing to check against
    namespace = objects.get(namespaces, ObjectKey.cluster(key.namespace))
    if namespace is None:
        raise not_found(NAMESPACES, key.namespace)
    if is_deleting(namespace):
        raise _terminating(kind, key)


def _terminating(kind: ResourceKind, key: ObjectKey) -> ApiError:
    reason = f"unable to create new content in namespace {key.namespace} because it is being terminated"
    refusal = forbidden(kind.resource, key.name, reason)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {key.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = {**(refusal.details or {}), "causes": [cause]}
    return refusal
