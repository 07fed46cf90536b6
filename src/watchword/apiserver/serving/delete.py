"""The verb delete: at once, or when finalizers and grace allow."""

from datetime import timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting
from watchword.api.time import rfc3339
from watchword.api.validation import parse_seconds
from watchword.apiserver.serving import pipeline
from watchword.apiserver.serving.bodies import decode, media_type
from watchword.apiserver.serving.errors import bad_request, conflict, invalid_kind, not_found, server_timeout, success
from watchword.apiserver.serving.field_errors import invalid, not_supported
from watchword.apiserver.serving.model import ApiError, FieldError, HandlerRequest, Now, ResourceKind
from watchword.apiserver.serving.object_storage import StoredObject, encode_object
from watchword.apiserver.serving.read import ListPage, Read
from watchword.apiserver.serving.requestinfo import is_truthy
from watchword.apiserver.serving.write import ATTEMPTS, is_released, unregistered
from watchword.apiserver.store.model import RevisionConflict

POLICIES = ("Orphan", "Background", "Foreground")
POD_GRACE_SECONDS = 30
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class DeleteOptions(Struct, frozen=True):
    """Preconditions, grace and what becomes of dependents."""

    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False

    def write_request(self, request: HandlerRequest) -> pipeline.WriteRequest:
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        options = {
            "dryRun": ["All"] if self.dry_run else [],
            "gracePeriodSeconds": self.grace_seconds,
            "propagationPolicy": self.propagation,
            "preconditions": {name: value for name, value in preconditions.items() if value},
        }
        return pipeline.WriteRequest(
            user=request.user,
            dry_run=self.dry_run,
            options={name: value for name, value in options.items() if value not in (None, "", [], {})},
            annotations=request.annotations,
        )


def read_delete_options(request: HandlerRequest) -> DeleteOptions:
    """Read the options; the body wins over the query, as upstream has it."""
    if request.body:
        said = decode(request.body, media_type(request.header("content-type")))
        if str(said.get("kind") or "") not in {"", "DeleteOptions"}:
            raise bad_request(unregistered(str(said.get("apiVersion") or ""), str(said["kind"])))
    else:
        said = _from_query(request)
    return validate_delete_options(said)


def validate_delete_options(said: Object) -> DeleteOptions:
    """Check options; 422 with every problem found."""
    errors: list[FieldError] = []
    policy, orphan = said.get("propagationPolicy"), said.get("orphanDependents")
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, detail))
    if policy is not None and str(policy) not in POLICIES:
        errors.append(not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    dry_run = pipeline.parse_dry_run(said.get("dryRun"), errors)
    if errors:
        raise invalid_kind("meta.k8s.io", "DeleteOptions", "", errors)
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = said.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions must be an object")
    return DeleteOptions(
        grace_seconds=_grace_option(said.get("gracePeriodSeconds")),
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        propagation=policy or "",
        dry_run=dry_run,
    )


def _grace_option(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request("gracePeriodSeconds must be an integer")
    return 1 if value < 0 else value


def _from_query(request: HandlerRequest) -> Object:
    said: Object = {}
    if grace := request.parameter("gracePeriodSeconds"):
        said["gracePeriodSeconds"] = pipeline.parse_integer(grace)
    if policy := request.parameter("propagationPolicy"):
        said["propagationPolicy"] = policy
    if orphan := request.parameter("orphanDependents"):
        said["orphanDependents"] = is_truthy(orphan)
    dry_run = [value for name, value in request.query if name == "dryRun"]
    if dry_run:
        said["dryRun"] = dry_run
    return said


class Delete(Struct, frozen=True):
    """Ends objects."""

    tools: pipeline.VerbDependencies

    async def __call__(
        self, kind: ResourceKind, key: ObjectKey, options: DeleteOptions, call: pipeline.WriteRequest
    ) -> pipeline.VerbResult:
        for _ in range(ATTEMPTS):
            stored = self.tools.objects.latest(kind, key)
            if stored is None:
                await self.tools.objects.store.flush()
                raise not_found(kind.resource, key.name)
            require_preconditions(kind, stored.obj, options)
            try:
                return await self._once(kind, key, stored, options, call)
            except RevisionConflict:
                continue
        raise server_timeout(kind.resource, "delete", 1)

    async def _once(
        self,
        kind: ResourceKind,
        key: ObjectKey,
        stored: StoredObject,
        options: DeleteOptions,
        call: pipeline.WriteRequest,
    ) -> pipeline.VerbResult:
        tools, old = self.tools, stored.obj
        dry_run = options.dry_run or call.dry_run
        await tools.pipeline.admit(call.operation("delete", kind, key, new=None, old=old))
        new = mark_deleting(kind, old, options, now=tools.now)
        finished = is_released(new)
        if finished and not is_deleting(old) and not _has_grace(kind):
            new = old  # deleted immediately: watchers see the last state without a deletionTimestamp
        if dry_run:
            return self._answer(kind, new, finished=finished)
        if finished:
            await tools.objects.erase(kind, key, new, stored.revision)
        elif new == old:
            await tools.objects.store.flush()
        else:
            await tools.objects.put(kind, key, new, stored.revision)
        return self._answer(kind, new, finished=finished)

    def _answer(self, kind: ResourceKind, obj: Object, *, finished: bool) -> pipeline.VerbResult:
        if finished and not kind.returns_deleted_object:
            metadata = obj["metadata"]
            return pipeline.VerbResult(orjson.dumps(success(kind.resource, metadata["name"], metadata["uid"])))
        return pipeline.VerbResult(encode_object(obj))


def require_preconditions(kind: ResourceKind, obj: Object, options: DeleteOptions) -> None:
    metadata, name = obj["metadata"], obj["metadata"]["name"]
    if options.uid and options.uid != metadata["uid"]:
        detail = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(_by_kind(kind.resource), name, detail)
    if options.resource_version and options.resource_version != metadata["resourceVersion"]:
        detail = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). The object might have been modified"
        )
        raise conflict(_by_kind(kind.resource), name, detail)


def _by_kind(resource: Resource) -> Resource:
    """Return the resource as these two messages name it: by its kind."""
    return replace(resource, plural=resource.kind)


def mark_deleting(kind: ResourceKind, old: Object, options: DeleteOptions, *, now: Now) -> Object:
    """Return the object as deletion leaves it; `is_released` then tells whether it can be removed."""
    new: Object = {**old, "metadata": dict(old["metadata"])}
    metadata = new["metadata"]
    _choose_finalizers(metadata, options.propagation)
    grace = _grace(kind, old, options)
    if is_deleting(old):
        held = metadata.get("deletionGracePeriodSeconds") or 0
        if grace < held:
            metadata["deletionGracePeriodSeconds"] = grace
            metadata["deletionTimestamp"] = rfc3339(now() + (parse_seconds(grace) or timedelta(0)))
    else:
        metadata["deletionTimestamp"] = rfc3339(now() + (parse_seconds(grace) or timedelta(0)))
        if not _is_namespace(kind):  # these end by finalizers of their own, not by grace
            metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        if kind.begin_deletion is not None:
            kind.begin_deletion(new)
    if _is_namespace(kind):
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
    return new


def _is_namespace(kind: ResourceKind) -> bool:
    return kind.resource.kind == "Namespace" and not kind.resource.group


def _choose_finalizers(metadata: dict[str, Any], propagation: str) -> None:
    if not propagation:
        return
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation)
    kept = [name for name in finalizers_of({"metadata": metadata}) if name not in {FOREGROUND, ORPHAN} - {wanted}]
    if wanted and wanted not in kept:
        kept.append(wanted)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _has_grace(kind: ResourceKind) -> bool:
    return kind.resource.kind == "Pod" and not kind.resource.group


def _grace(kind: ResourceKind, obj: Object, options: DeleteOptions) -> int:
    """Only pods that may run somewhere are given time."""
    if not _has_grace(kind):
        return 0
    if not (obj.get("spec") or {}).get("nodeName") or (obj.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int((obj.get("spec") or {}).get("terminationGracePeriodSeconds") or POD_GRACE_SECONDS)


class DeleteCollection(Struct, frozen=True):
    """Deletes object by object; one that is already gone does not stop the rest."""

    read: Read
    delete: Delete

    async def __call__(
        self,
        kind: ResourceKind,
        namespace: str,
        chosen: pipeline.ListOptions,
        options: DeleteOptions,
        call: pipeline.WriteRequest,
    ) -> ListPage:
        """Delete what a list with the same options shows, and return that list."""
        page = await self.read.page(kind, namespace, chosen)
        for record in page.records:
            try:
                await self.delete(kind, record.key, options, call)
            except ApiError as refusal:
                if refusal.reason != "NotFound":
                    raise
        return page
