"""Finds out which objects the manifests of a work stand for."""

from __future__ import annotations

from typing import Any

from watchword.agent.work.manifests import (
    RejectedManifest,
    ResolvedManifest,
    manifests_of,
    meta_of,
    reject_duplicates,
    resolve_manifest,
    validate_manifest,
)
from watchword.agent.work.rest_mapper import RestMapper
from watchword.api.meta import Object


async def resolve_manifests(work: Object, rest_mapper: RestMapper) -> list[ResolvedManifest | RejectedManifest]:
    """Place every manifest or refuse it; asks the cluster only about kinds that were not used before."""
    return reject_duplicates([await _read(n, manifest, rest_mapper) for n, manifest in enumerate(manifests_of(work))])


async def _read(ordinal: int, manifest: Any, rest_mapper: RestMapper) -> ResolvedManifest | RejectedManifest:
    meta = meta_of(ordinal, manifest)
    objection = validate_manifest(manifest)
    if objection:
        return RejectedManifest(meta, objection)
    resource = await rest_mapper.find(manifest["apiVersion"], meta.kind)
    if resource is None:
        why = f"the cluster does not serve {meta.kind} in {manifest['apiVersion']}: install what defines it"
        return RejectedManifest(meta, why, retryable=True)
    return resolve_manifest(meta, manifest, resource)
