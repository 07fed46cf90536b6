"""The strategy `ServerSideApply`: fields are declared, those of others are a conflict, some are left to the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from watchword.agent.work.diff import choose_manifest_patch
from watchword.agent.work.ignore_fields import choose_apply_body
from watchword.agent.work.manifests import ObjectRef
from watchword.agent.work.object_writer import ApplyStep, ObjectWriter, server_change_digest
from watchword.agent.work.ownership import is_owned_by
from watchword.api.meta import Object
from watchword.api.names import Annotation
from watchword.runtime.ensure import with_preconditions


@dataclass
class ServerSideApplier:
    """Remembers what the server keeps its own way, so that it is not asked for again and again."""

    writer: ObjectWriter
    _server_changes: dict[ObjectRef, str] = field(default_factory=dict, init=False)

    async def server_side_apply(self, step: ApplyStep) -> Object:
        """Return the object as it is afterwards; raises `Conflict` over fields of others, `InvalidFieldPath`."""
        config, target = step.config, step.target
        present = await self.writer.objects.read(target) if step.recorded or config.ignored else None
        applied, depends = choose_apply_body(step.wanted, present, config.ignored, digest=step.manifest.digest)
        body = step.with_owner_reference(_with_digest(applied, step.manifest.digest))
        if present is not None:
            changes = _choose_missing_fields(step, present, body)
            if changes is None or server_change_digest(present, changes) == self._server_changes.get(target):
                return present
            if depends:  # what the cluster says was copied from this very version
                body = with_preconditions(present, body)
        stored = await self.writer.server_side_apply(step, body, manager=config.manager, force=config.force)
        left = _choose_missing_fields(step, stored, body)
        self._server_changes[target] = "" if left is None else server_change_digest(stored, left)
        return stored

    def forget(self, target: ObjectRef) -> None:
        """Remember nothing about an object."""
        self._server_changes.pop(target, None)


def _with_digest(applied: Object, digest: str) -> Object:
    annotations = {**(applied["metadata"].get("annotations") or {}), Annotation.APPLIED_DIGEST: digest}
    return {**applied, "metadata": {**applied["metadata"], "annotations": annotations}}


def _choose_missing_fields(step: ApplyStep, present: Object, body: Object) -> Object | None:
    """Return what an object lacks of what would be declared; None when it holds everything."""
    if is_owned_by(present, step.owner["uid"]) is step.orphaned:
        return {"metadata": {"ownerReferences": step.owner}}
    return choose_manifest_patch(present, body)
