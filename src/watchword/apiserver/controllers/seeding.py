"""Creates the namespaces, roles and bindings that must exist before the first request."""

from __future__ import annotations

from typing import Any

from watchword.api.meta import Object, ObjectKey, Resource, annotations_of
from watchword.api.resources import NAMESPACES
from watchword.apiserver.bootstrap_policy import default_objects
from watchword.apiserver.model import ApiError, Registry

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


async def seed_policy(registry: Registry) -> None:
    """Create what is missing; mend default roles and bindings unless the administrator opted out."""
    for resource, wanted in default_objects():
        found = registry.get(resource, ObjectKey.of(wanted))
        if found is None:
            await _create(registry, resource, wanted)
        elif resource != NAMESPACES:
            mended = mend(found, wanted)
            if mended != found:
                await registry.update(resource, mended)


def mend(found: Object, wanted: Object) -> Object:
    """Return the stored object with every default rule or subject it lost; additions are kept."""
    if annotations_of(found).get(AUTO_UPDATE) != "true":
        return found
    mended = dict(found)
    for field in ("rules", "subjects"):
        if wanted.get(field):
            mended[field] = _united(found.get(field) or [], wanted[field])
    return mended


def _united(held: list[Any], wanted: list[Any]) -> list[Any]:
    return [*held, *(row for row in wanted if row not in held)]


async def _create(registry: Registry, resource: Resource, obj: Object) -> None:
    try:
        await registry.create(resource, obj)
    except ApiError as refusal:
        if refusal.reason != "AlreadyExists":
            raise
