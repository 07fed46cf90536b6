"""The verb delete: at once, or when finalizers and grace allow."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting
from watchword.api.resources import NAMESPACES, PODS
from watchword.api.time import rfc3339
from watchword.api.validation import parse_seconds
from watchword.apiserver.serving import pipeline
from watchword.apiserver.serving.bodies import decode, media_type
from watchword.apiserver.serving.errors import bad_request, conflict, invalid_kind, not_found, server_timeout, success
from watchword.apiserver.serving.field_errors import invalid, not_supported
from watchword.apiserver.serving.model import FieldError, HandlerRequest, Now, ResourceKind, without_empty
from watchword.apiserver.serving.object_storage import encode_object
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
        options = {
            "dryRun": ["All"] if self.dry_run else [],
            "propagationPolicy": self.propagation,
            "preconditions": without_empty({"uid": self.uid, "resourceVersion": self.resource_version}),
        }
        grace = {} if self.grace_seconds is None else {"gracePeriodSeconds": self.grace_seconds}
        return pipeline.WriteRequest(
            user=request.user,
            dry_run=self.dry_run,
            options={**without_empty(options), **grace},
            annotations=request.annotations,
        )


def read_delete_options(request: HandlerRequest) -> DeleteOptions:
    """Read the options; the body wins over the query, as upstream has it. 422 with every problem found."""
    if request.body:
        said = decode(request.body, media_type(request.header("content-type")))
        if str(said.get("kind") or "") not in {"", "DeleteOptions"}:
            raise bad_request(unregistered(str(said.get("apiVersion") or ""), str(said["kind"])))
    else:
        said = {name: read(value) for name, read in _QUERY.items() if (value := request.parameter(name))}
        said["dryRun"] = [value for name, value in request.query if name == "dryRun"]
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


_QUERY: dict[str, Callable[[str], Any]] = {
    "gracePeriodSeconds": pipeline.parse_integer,
    "propagationPolicy": str,
    "orphanDependents": is_truthy,
}


async def delete(
    tools: pipeline.VerbDependencies,
    kind: ResourceKind,
    key: ObjectKey,
    options: DeleteOptions,
    call: pipeline.WriteRequest,
) -> pipeline.VerbResult:
    objects = tools.objects
    for _ in range(ATTEMPTS):
        record = objects.latest(kind, key)
        if record is None:
            await objects.store.flush()
            raise not_found(kind.resource, key.name)
        old = objects.decode(kind, record)
        require_preconditions(kind, old, options)
        for admit in tools.validating:
            await admit(call.operation("delete", kind, key, new=None, old=old))
        new = mark_deleting(kind, old, options, now=tools.now)
        finished = is_released(new)
        if finished and not is_deleting(old) and kind.resource != PODS:
            new = old  # deleted immediately: watchers see the last state without a deletionTimestamp
        try:
            if not call.dry_run and new == old and not finished:
                await objects.store.flush()
            elif not call.dry_run:
                await objects.write(kind, key, new, record.revision, deleted=finished)
        except RevisionConflict:
            continue
        if finished and not kind.returns_deleted_object:
            return pipeline.VerbResult(orjson.dumps(success(kind.resource, key.name, new["metadata"]["uid"])))
        return pipeline.VerbResult(encode_object(new))
    raise server_timeout(kind.resource, "delete")


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
    ends = rfc3339(now() + (parse_seconds(grace) or timedelta(0)))
    if is_deleting(old):
        if grace < (metadata.get("deletionGracePeriodSeconds") or 0):
            metadata.update(deletionGracePeriodSeconds=grace, deletionTimestamp=ends)
    else:
        metadata["deletionTimestamp"] = ends
        if kind.resource != NAMESPACES:  # these end by finalizers of their own, not by grace
            metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        if kind.begin_deletion is not None:
            kind.begin_deletion(new)
    if kind.resource == NAMESPACES:
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
    return new


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


def _grace(kind: ResourceKind, obj: Object, options: DeleteOptions) -> int:
    """Only pods that may run somewhere are given time."""
    if kind.resource != PODS:
        return 0
    if not (obj.get("spec") or {}).get("nodeName") or (obj.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int((obj.get("spec") or {}).get("terminationGracePeriodSeconds") or POD_GRACE_SECONDS)
