"""Brings single objects of a work to the managed cluster, by the strategy that the work asks for."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, ObjectRef, Resource
from watchword.api.names import Annotation
from watchword.api.resources import RBAC_GROUP
from watchword.kube import errors
from watchword.kube.client import PatchType
from watchword.runtime.api_errors import describe_api_error, is_field_conflict
from watchword.runtime.diff import Comparison, choose_changes
from watchword.runtime.ensure import ApplyPolicy, apply_object, difference_digest, with_preconditions
from watchword.runtime.errors import BeingDeleted, FieldContested
from watchword.work.executor import READ_VERBS, ExecutorPermissions, NotPermitted
from watchword.work.ignore_fields import InvalidFieldPath, choose_apply_body
from watchword.work.objects import ObjectClient
from watchword.work.plan import FIELD_MANAGER, ApplyOutcome, ApplyStep, RetryMode, Strategy

APPLY_RETRY_SECONDS = 600.0
"""Seconds after which a manifest that server-side apply refused is tried that way again: the server may have had an
internal error."""


class ExecutorWriter(Struct, frozen=True):
    """Writes the object of one step, once the executor of the work may; an `ObjectWriter`."""

    objects: ObjectClient
    permissions: ExecutorPermissions
    step: ApplyStep

    async def get(self, resource: Resource, key: ObjectKey, /) -> Object:
        return await self.objects.get(resource, key)

    async def create(self, resource: Resource, obj: Object, /) -> Object:
        return await self._write("POST", ObjectRef(resource, ObjectKey.of(obj)), obj, content_type="application/json")

    async def patch(self, resource: Resource, key: ObjectKey, patch: Mapping[str, Any], /) -> Object:
        return await self._write("PATCH", ObjectRef(resource, key), patch)

    async def apply(self, resource: Resource, obj: Object, /, *, manager: str, force: bool) -> Object:
        target = ObjectRef(resource, ObjectKey.of(obj))
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._write("PATCH", target, obj, content_type=PatchType.APPLY, **query)

    async def delete(self, resource: Resource, key: ObjectKey, /, *, uid: str) -> None:
        await self.permissions.require(self.step.executor, self.step.verbs, self.step.target)
        await self.objects.client.delete(resource, key, uid=uid)

    async def _write(self, method: str, target: ObjectRef, body: Mapping[str, Any], **query: Any) -> Object:
        """Write; rights are granted only when the executor itself could grant them."""
        executor = self.step.executor
        await self.permissions.require(executor, self.step.verbs, target)
        if executor is not None and target.resource.group == RBAC_GROUP:
            client = self.permissions.impersonating(executor)
            try:
                await self.objects.write(method, target, body, tried_by=client, **query)
            except errors.Forbidden as cause:
                raise NotPermitted(f"the executor {executor} may not grant what {target} grants") from cause
        return await self.objects.write(method, target, body, **query)


class _Applied(Struct, frozen=True):
    """What is remembered of an object, so that a look at an unchanged one costs no request."""

    digest: str = ""  # of the manifest that was applied
    accepted: str = ""  # `difference_digest` of what the server keeps its own way
    retry_apply_at: float = float("inf")  # when server-side apply, which was refused, is tried again


class Applier(Struct):
    """Turns everything that concerns one object alone into an outcome, so that the others go on."""

    objects: ObjectClient
    permissions: ExecutorPermissions
    _applied: dict[ObjectRef, _Applied] = field(default_factory=dict)

    async def apply(self, step: ApplyStep) -> ApplyOutcome:
        """Bring one object over; raises only when the server cannot be reached."""
        try:
            await self.permissions.require(step.executor, READ_VERBS, step.target)
        except NotPermitted as refusal:
            return ApplyOutcome(why=str(refusal), retry=RetryMode.AFTER_MINUTE, is_readable=False)
        try:
            return await self._yield(step) or ApplyOutcome(present=await self._strategy(step)(step))
        except NotPermitted as refusal:
            return ApplyOutcome(why=str(refusal), retry=RetryMode.AFTER_MINUTE)
        except InvalidFieldPath as refusal:
            return ApplyOutcome(why=str(refusal), reason="AppliedManifestSSAIgnoreFieldError")
        except (BeingDeleted, FieldContested) as refusal:
            return ApplyOutcome(why=str(refusal), retry=RetryMode.WITH_BACKOFF)
        except errors.ApiStatusError as refusal:
            final = isinstance(refusal, errors.Conflict) and is_field_conflict(refusal)
            retry = RetryMode.ON_CHANGE if final else RetryMode.WITH_BACKOFF
            older = f"; it is also applied by the older ManifestWork {step.deciding_work}" if step.deciding_work else ""
            return ApplyOutcome(why=describe_api_error(refusal, step.target) + older, retry=retry, error=refusal)

    def forget(self, target: ObjectRef) -> None:
        self._applied.pop(target, None)

    def _strategy(self, step: ApplyStep) -> Callable[[ApplyStep], Awaitable[Object | None]]:
        return {
            Strategy.UPDATE: self._update,
            Strategy.CREATE_ONLY: self._create_only,
            Strategy.SERVER_SIDE_APPLY: self._server_side_apply,
            Strategy.READ_ONLY: lambda step: self.objects.read(step.target),
        }[step.config.strategy]

    async def _yield(self, step: ApplyStep) -> ApplyOutcome | None:
        """Leave an object's content to the older work that applies it; None when this work decides.

        With a field manager of its own, a work may still add what no other work says: the server tells them apart.
        """
        is_alone = step.config.strategy is Strategy.SERVER_SIDE_APPLY and step.config.manager != FIELD_MANAGER
        if not step.deciding_work or is_alone or step.config.strategy in (Strategy.CREATE_ONLY, Strategy.READ_ONLY):
            return None
        present = await self.objects.read(step.target)
        if present is None:
            return None
        stored = await self._set_owner(step, present)
        if choose_changes(stored, step.wanted, Comparison.CONTAINS) is None:
            return ApplyOutcome(present=stored)
        why = (
            f"{step.target} is applied with other content by the older ManifestWork {step.deciding_work}: "
            "remove the object from one of the two works"
        )
        return ApplyOutcome(why=why, present=stored)

    async def _set_owner(self, step: ApplyStep, present: Object) -> Object:
        """Make an object carry our reference, or not when it is orphaned, and change nothing else."""
        identity = {"metadata": {name: step.wanted["metadata"].get(name) for name in ("name", "namespace")}}
        body, policy = step.with_owner_references(identity), _policy(step, Comparison.CONTAINS)
        return await apply_object(self._writer(step), step.target.resource, body, present, policy)

    async def _create_only(self, step: ApplyStep) -> Object:
        target, writer = step.target, self._writer(step)
        present = await self.objects.read(target) if step.recorded else None
        if present is None:
            with suppress(errors.AlreadyExists):
                return await writer.create(target.resource, step.with_owner_references(step.wanted))
            present = await writer.get(target.resource, target.key)
        return await self._set_owner(step, present)

    async def _update(self, step: ApplyStep) -> Object:
        """Apply by server-side apply; fields that the manifest does not name stay as they are."""
        target, before = step.target, self._applied.get(step.target, _Applied())
        now = asyncio.get_running_loop().time()
        known = before.digest == step.manifest.digest
        look = (known or step.is_generation_applied) and before.retry_apply_at > now
        # A binding to another role has to be replaced; which role it names is seen only by looking at it.
        look = look or step.is_shared or (step.recorded and "roleRef" in step.wanted)
        present = await self.objects.read(target) if look else None
        body = step.with_owner_references(step.wanted, present)
        # Until the first apply since the start, the defaults of the server are unknown: added fields are accepted.
        policy = _policy(step, Comparison.EXACT_LISTS if known else Comparison.CONTAINS)
        policy = replace(policy, manager=FIELD_MANAGER, force=True, accepted=before.accepted if known else "")
        try:
            stored = await self._apply(step, body, present, policy)
        except errors.ApiStatusError as refusal:
            if not is_apply_unsupported(refusal):
                raise
            stored = await self._patch(step, body)
            return self._remember(step, body, stored, retry_apply_at=now + APPLY_RETRY_SECONDS)
        if stored is present:
            return present if known else self._remember(step, body, stored, retry_apply_at=before.retry_apply_at)
        return self._remember(step, body, stored)

    async def _patch(self, step: ApplyStep, body: Object) -> Object:
        present = await self.objects.read(step.target) if step.recorded else None
        policy = _policy(step, Comparison.CONTAINS)
        return await apply_object(self._writer(step), step.target.resource, body, present, policy)

    async def _server_side_apply(self, step: ApplyStep) -> Object:
        """Apply the fields of the manifest; raises `Conflict` over fields of others, `InvalidFieldPath`."""
        config, target, digest = step.config, step.target, step.manifest.digest
        present = await self.objects.read(target) if step.recorded or step.is_shared or config.ignored else None
        applied, depends = choose_apply_body(step.wanted, present, config.ignored, digest=digest)
        body = step.with_owner_references(_with_digest(applied, digest), present)
        if present is not None and depends:  # what the cluster says was copied from this very version
            body = with_preconditions(present, body)
        accepted = self._applied.get(target, _Applied()).accepted
        policy = _policy(step, Comparison.CONTAINS)
        force = config.force and not step.deciding_work
        policy = replace(policy, manager=config.manager, force=force, accepted=accepted)
        stored = await self._apply(step, body, present, policy)
        return stored if stored is present else self._remember(step, body, stored, comparison=Comparison.CONTAINS)

    async def _apply(self, step: ApplyStep, body: Object, present: Object | None, policy: ApplyPolicy) -> Object:
        if present is not None and step.other_owners(present):  # they were copied from this very version
            body = with_preconditions(present, body)
        return await apply_object(self._writer(step), step.target.resource, body, present, policy)

    def _writer(self, step: ApplyStep) -> ExecutorWriter:
        return ExecutorWriter(self.objects, self.permissions, step)

    def _remember(
        self,
        step: ApplyStep,
        body: Object,
        stored: Object,
        *,
        comparison: Comparison = Comparison.EXACT_LISTS,
        retry_apply_at: float = float("inf"),
    ) -> Object:
        left = choose_changes(stored, body, comparison, without_owner=step.unwanted_owner)
        accepted = "" if left is None else difference_digest(stored, left)
        self._applied[step.target] = _Applied(step.manifest.digest, accepted, retry_apply_at)
        return stored


def _policy(step: ApplyStep, comparison: Comparison) -> ApplyPolicy:
    return ApplyPolicy(comparison=comparison, without_owner=step.unwanted_owner)


def _with_digest(applied: Object, digest: str) -> Object:
    annotations = {**(applied["metadata"].get("annotations") or {}), Annotation.APPLIED_DIGEST: digest}
    return {**applied, "metadata": {**applied["metadata"], "annotations": annotations}}


def is_apply_unsupported(refusal: errors.ApiStatusError) -> bool:
    """Whether a server may take the manifest in another way: with misspelt fields, or with repeated keys.

    It answers those with 500 and no reason; its other internal errors have one.
    """
    bare = refusal.code == 500 and not refusal.reason
    return bare or isinstance(refusal, errors.BadRequest | errors.MethodNotAllowed | errors.UnsupportedMediaType)
