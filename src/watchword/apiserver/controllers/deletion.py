"""Deletes an object that may be deleted or replaced already."""

from __future__ import annotations

from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.apiserver.model import ApiError, Registry


async def delete_if_unchanged(
    registry: Registry, resource: Resource, obj: Object, *, grace_seconds: int | None = None
) -> None:
    """Delete exactly this object; when it is gone or was recreated, there is nothing to do."""
    try:
        await registry.delete(resource, ObjectKey.of(obj), uid=uid_of(obj), grace_seconds=grace_seconds)
    except ApiError as refusal:
        if refusal.code not in {404, 409}:
            raise
