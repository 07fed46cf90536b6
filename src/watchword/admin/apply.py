"""Declaring many objects in order, for real or to see whether the server would take them."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from watchword.api.meta import Manifest, Object, ObjectKey, Resource
from watchword.credentials.driver import DRIVER_LIST
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


async def list_if_served(
    client: Client, kind: Resource, *, namespace: str = "", labels: str = "", fields: str = ""
) -> list[Object]:
    try:
        return (await client.list(kind, namespace=namespace, labels=labels, fields=fields)).items
    except NotFound:
        return []


async def _rehearse(client: Client, resource: Resource, obj: Object, manager: str) -> None:
    # Its kind or namespace may stand earlier in the list, and is not there in a rehearsal.
    with contextlib.suppress(NotFound):
        await client.apply(resource, obj, manager=manager, force=True, dry_run=True)


UNITED_BY = {"featureGates": "feature"}
"""Lists whose entries are settings of their own: an entry that is not named stays."""

REPLACED_BY = {DRIVER_LIST: "authType"}
"""Lists that are named as a whole: an entry that is not named goes, one that is named keeps its other fields."""


def keep_unnamed(present: Mapping[str, Any], named: Mapping[str, Any]) -> Object:
    merged = dict(present)
    for field, value in named.items():
        merged[field] = _merge_field(field, present.get(field), value)
    return merged


def select_settings(present: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]]) -> Object:
    """Return the fields of a spec that a command sets: the others belong to other writers, or are defaults."""
    return {
        name: select_settings(present[name], inner) if inner and isinstance(present[name], Mapping) else present[name]
        for name, inner in fields.items()
        if name in present
    }


def _merge_field(field: str, present: Any, named: Any) -> Any:
    if isinstance(present, Mapping) and isinstance(named, Mapping):
        return keep_unnamed(present, named)
    key = UNITED_BY.get(field) or REPLACED_BY.get(field)
    if key is None or not isinstance(present, list):
        return named
    before = {row.get(key): row for row in present if isinstance(row, Mapping)}
    entries = {row.get(key): keep_unnamed(before.get(row.get(key)) or {}, row) for row in named}
    return list(({**before, **entries} if field in UNITED_BY else entries).values())
