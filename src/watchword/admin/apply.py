"""Declaring many objects in order, for real or to see whether the server would take them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from watchword.api.meta import Manifest, Object, ObjectKey, Resource
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.manifests import apply_manifests


async def apply_all(client: Client, manifests: Iterable[Manifest], *, manager: str, dry_run: bool = False) -> list[str]:
    """Apply the objects, definitions of kinds first and together; return what they are called."""
    rows = list(manifests)
    if dry_run:
        for resource, obj in rows:
            await _rehearse(client, resource, obj, manager)
        return names_of(rows)
    await apply_manifests(client, rows, manager=manager)
    return names_of(rows)


def names_of(rows: Sequence[Manifest]) -> list[str]:
    """Return the names of the objects: `kind/name` or `kind/namespace/name`."""
    return [f"{resource.kind.lower()}/{ObjectKey.of(obj)}" for resource, obj in rows]


async def _rehearse(client: Client, resource: Resource, obj: Object, manager: str) -> None:
    # Its kind or namespace may stand earlier in the list, and is not there in a rehearsal.
    with contextlib.suppress(NotFound):
        await client.apply(resource, obj, manager=manager, force=True, dry_run=True)
