"""Creates the namespaces, roles and bindings that must exist before the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, Resource, annotations_of
from watchword.api.resources import NAMESPACES
from watchword.apiserver.authz.rbac_index import RbacIndex
from watchword.apiserver.bootstrap_policy import default_objects
from watchword.apiserver.model import ApiError, Registry

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


class RbacBootstrap(Struct):
    """Updates RBAC's index; its start creates the defaults, before the first request is handled."""

    registry: Registry
    index: RbacIndex
    _stop_following: Callable[[], None] | None = None

    async def start(self) -> None:
        """Follow roles and bindings, then create and restore_defaults those that every plane has."""
        self._stop_following = self.index.follow(self.registry)
        await ensure_bootstrap_policy(self.registry)

    async def stop(self) -> None:
        """Follow no more."""
        if self._stop_following is not None:
            self._stop_following()


async def ensure_bootstrap_policy(registry: Registry) -> None:
    """Create what is missing; restore_defaults default roles and bindings unless the administrator opted out."""
    wanted = default_objects()
    namespaces = [row for row in wanted if row[0] == NAMESPACES]
    others = [row for row in wanted if row[0] != NAMESPACES]
    for rows in (namespaces, others):  # at once, so that the store commits them together
        await asyncio.gather(*(_ensure(registry, resource, obj) for resource, obj in rows))


async def _ensure(registry: Registry, resource: Resource, wanted: Object) -> None:
    found = registry.get(resource, ObjectKey.of(wanted))
    if found is None:
        await _create(registry, resource, wanted)
    elif resource != NAMESPACES:
        mended = restore_defaults(found, wanted)
        if mended != found:
            await registry.update(resource, mended)


def restore_defaults(found: Object, wanted: Object) -> Object:
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
