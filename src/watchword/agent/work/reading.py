"""Finds out which objects the manifests of a work stand for."""

from __future__ import annotations

from typing import Any

from watchword.agent.work.catalog import Catalog
from watchword.agent.work.manifests import (
    Placed,
    Refused,
    judge_manifest,
    manifests_of,
    meta_of,
    place,
    refuse_repetitions,
)
from watchword.api.meta import Object


async def read_manifests(work: Object, catalog: Catalog) -> list[Placed | Refused]:
    """Place every manifest or refuse it; asks the cluster only about kinds that were not used before."""
    return refuse_repetitions([await _read(n, manifest, catalog) for n, manifest in enumerate(manifests_of(work))])


async def _read(ordinal: int, manifest: Any, catalog: Catalog) -> Placed | Refused:
    meta = meta_of(ordinal, manifest)
    objection = judge_manifest(manifest)
    if objection:
        return Refused(meta, objection)
    resource = await catalog.find(manifest["apiVersion"], meta.kind)
    if resource is None:
        why = f"the cluster does not serve {meta.kind} in {manifest['apiVersion']}: install what defines it"
        return Refused(meta, why, passing=True)
    return place(meta, manifest, resource)
