"""Removes duplicate owner references."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.apiserver.model import Operation


async def deduplicate_owners(operation: Operation) -> None:
    """Drop repeated owner references of a new state, with a warning."""
    if operation.new is None:
        return
    metadata = operation.new.get("metadata") or {}
    refs: list[Object] = metadata.get("ownerReferences") or []
    if len(refs) < 2:
        return
    kept: list[Object] = []
    for ref in refs:
        if ref not in kept:
            kept.append(ref)
    if len(kept) == len(refs):
        return
    repeated = sorted({str(ref.get("uid")) for ref in kept if refs.count(ref) > 1})
    metadata["ownerReferences"] = kept
    operation.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(repeated)}"
    )
