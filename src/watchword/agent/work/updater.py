"""The strategy `Update`: what a manifest names is as it says, what it no longer names goes, all else stays."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from watchword.agent.work.diff import choose_manifest_patch
from watchword.agent.work.manifest_config import FIELD_MANAGER
from watchword.agent.work.manifests import ObjectRef
from watchword.agent.work.object_writer import ApplyStep, ObjectWriter, require_not_deleting, server_change_digest
from watchword.agent.work.ownership import choose_owner_references
from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError, BadRequest, MethodNotAllowed, UnsupportedMediaType

APPLY_RETRY_SECONDS = 600.0
"""Seconds after which a manifest that could not be declared is tried once more: the server may have been in trouble."""


@dataclass
class Updater:
    """Remembers what it has applied, so that a look at an unchanged object costs no request."""

    writer: ObjectWriter
    _digests: dict[ObjectRef, str] = field(default_factory=dict, init=False)
    _server_changes: dict[ObjectRef, str] = field(default_factory=dict, init=False)
    _retry_apply_at: dict[ObjectRef, float] = field(
        default_factory=dict, init=False
    )  # not declared, and until when it stays so

    async def update(self, step: ApplyStep) -> Object:
        """Return the object as it is afterwards."""
        target = step.target
        known = self._digests.get(target) == step.manifest.digest
        is_retry_due = self._retry_apply_at.get(target, float("inf")) <= asyncio.get_running_loop().time()
        present = (
            await self.writer.objects.read(target)
            if (known or step.is_generation_applied) and not is_retry_due
            else None
        )
        if present is not None:
            present = require_not_deleting(present, target)
            # The first look since a start: what the server fills in by itself is not known yet, so it is believed.
            if not known and choose_update_patch(step, present) is None:
                return self._remember(step, present)
            changes = choose_update_patch(step, present, strict=True)
            if changes is None or server_change_digest(present, changes) == self._server_changes.get(target):
                return present
        return self._remember(step, require_not_deleting(await self._write(step), target))

    def forget(self, target: ObjectRef) -> None:
        """Remember nothing about an object."""
        self._digests.pop(target, None)
        self._server_changes.pop(target, None)
        self._retry_apply_at.pop(target, None)

    async def _write(self, step: ApplyStep) -> Object:
        try:
            stored = await self.writer.server_side_apply(
                step, step.with_owner_reference(step.wanted), manager=FIELD_MANAGER, force=True
            )
        except ApiStatusError as refusal:
            if not is_apply_unsupported(refusal):
                raise
            self._retry_apply_at[step.target] = asyncio.get_running_loop().time() + APPLY_RETRY_SECONDS
        else:
            self._retry_apply_at.pop(step.target, None)
            return await self.writer.set_owner(step, stored)
        present = await self.writer.create_or_read(step)
        changes = choose_update_patch(step, present)
        return present if changes is None else await self.writer.patch(step, present, changes)

    def _remember(self, step: ApplyStep, stored: Object) -> Object:
        self._digests[step.target] = step.manifest.digest
        left = choose_update_patch(step, stored, strict=True)
        self._server_changes[step.target] = "" if left is None else server_change_digest(stored, left)
        return stored


def choose_update_patch(step: ApplyStep, present: Object, *, strict: bool = False) -> Object | None:
    """Return the merge patch that makes an object what a work wants it to be; None when it is."""
    changes = choose_manifest_patch(present, step.wanted, strict=strict) or {}
    owners = choose_owner_references(present, step.owner, orphaned=step.orphaned)
    if owners is not None:
        changes["metadata"] = {**changes.get("metadata", {}), "ownerReferences": owners or None}
    return changes or None


def is_apply_unsupported(refusal: ApiStatusError) -> bool:
    """Whether a manifest may be one that a server takes only otherwise: with misspelt fields, or with repeated keys.

    It answers those with 500 and no reason; its set_owner troubles have one.
    """
    bare = refusal.code == 500 and not refusal.reason
    return bare or isinstance(refusal, BadRequest | MethodNotAllowed | UnsupportedMediaType)
