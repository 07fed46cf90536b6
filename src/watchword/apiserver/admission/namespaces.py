"""The namespaces that a control plane cannot do without."""

from __future__ import annotations

from watchword.apiserver import errors
from watchword.apiserver.model import Operation

PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


async def protect_namespaces(operation: Operation) -> None:
    """Refuse to delete a namespace that must always exist; existence of others is the registry's business."""
    resource = operation.kind.resource
    if operation.verb != "delete" or resource.group or resource.plural != "namespaces" or operation.subresource:
        return
    if operation.key.name in PROTECTED_NAMESPACES:
        raise errors.forbidden(resource, operation.key.name, "this namespace may not be deleted")
