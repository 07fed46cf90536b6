"""The verb update, and what every change of an existing object has in common with it."""

from collections.abc import Callable

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, finalizers_of, is_deleting
from watchword.apiserver.errors import conflict, invalid_kind, modified, not_found, quote, server_timeout
from watchword.apiserver.field_errors import invalid as invalid_field
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.body_identity import require_name, require_namespace, require_type
from watchword.apiserver.registry.create import Create
from watchword.apiserver.registry.object_storage import StoredObject, encode_object
from watchword.apiserver.registry.pipeline import VerbDependencies, VerbResult, WriteRequest
from watchword.apiserver.registry.system_fields import bump_generation, is_same, keep_stored_metadata
from watchword.apiserver.store.model import RevisionConflict, path_of

ATTEMPTS = 20

Mutation = Callable[[Object], Object]
"""Returns the wanted object from (a copy of its own of) the stored one; called anew for every attempt."""


class UpdateTarget(Struct, frozen=True):
    """What is to be changed."""

    kind: ResourceKind
    key: ObjectKey
    subresource: str = ""
    verb: str = "update"


class Update(Struct, frozen=True):
    """Changes objects that exist."""

    tools: VerbDependencies
    create: Create  # for kinds that a PUT may create

    async def replace(self, target: UpdateTarget, body: Callable[[], Object], call: WriteRequest) -> VerbResult:
        """PUT: the body is the whole new object. 404 when there is none to replace."""

        def read() -> Object:
            new = body()
            require_type(target.kind, new)
            require_name(new, target.key)
            require_namespace(target.kind, new, target.key.namespace)
            return new

        def revise(old: Object) -> Object:
            new = read()
            _require_revision(target, new)
            _require_same_object(target, new, old)
            return new

        try:
            return await self.revise(target, revise, call)
        except ApiError as refusal:
            if refusal.reason != "NotFound" or not target.kind.create_on_update or target.subresource:
                raise
        call.may_create()
        return await self.create(target.kind, target.key.namespace, read(), call)

    async def revise(self, target: UpdateTarget, revise: Mutation, call: WriteRequest) -> VerbResult:
        """Change one object by a function; retry after a conflict unless the caller set a resourceVersion."""
        for _ in range(ATTEMPTS):
            stored = self.tools.objects.latest(target.kind, target.key)
            if stored is None:
                raise not_found(target.kind.resource, target.key.name)
            new = revise(self.tools.objects.decode(target.kind, stored.record))
            wanted = new["metadata"].get("resourceVersion") or ""
            if wanted and wanted != stored.obj["metadata"]["resourceVersion"]:
                await self.tools.objects.store.flush()
                raise modified(target.kind.resource, target.key.name)
            try:
                return await self._commit(target, stored, new, call)
            except RevisionConflict:
                continue
        raise server_timeout(target.kind.resource, target.verb, 1)

    async def _commit(self, target: UpdateTarget, stored: StoredObject, new: Object, call: WriteRequest) -> VerbResult:
        kind, old = target.kind, stored.obj
        new = _merged_for(target, new, old)
        keep_stored_metadata(new, old)
        operation = call.operation("update", kind, target.key, new=new, old=old, subresource=target.subresource)
        tools = self.tools
        tools.ownership.track(operation, call)
        await tools.pipeline.mutate(operation)
        bump_generation(kind, new, old)
        await tools.pipeline.validate_write(operation)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if call.dry_run:
            return VerbResult(encode_object(new))
        if is_released(new):
            # Watchers see the last stored state; the caller sees what it requested.
            await tools.objects.erase(kind, target.key, old, stored.revision)
            return VerbResult(encode_object(new))
        if is_same(new, old):
            record = stored.record
            await tools.objects.store.flush()  # the response must be durable, although nothing was written
        else:
            record = await tools.objects.put(kind, target.key, new, stored.revision)
        return VerbResult(tools.objects.wire(kind, record))


def is_released(obj: Object) -> bool:
    if not is_deleting(obj) or finalizers_of(obj):
        return False
    if obj["metadata"].get("deletionGracePeriodSeconds"):
        return False
    return not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))


def _merged_for(target: UpdateTarget, new: Object, old: Object) -> Object:
    """Take over only the part of the object that the endpoint may change."""
    kind = target.kind
    if "status" not in kind.subresources:
        return new
    if target.subresource == "status":
        if not kind.custom:
            kept = {name: value for name, value in old.items() if name not in {"metadata", "status"}}
            return {**kept, "metadata": new["metadata"], **_pick_fields(new, "status")}
        metadata = {**old["metadata"], **_pick_fields(new["metadata"], "managedFields", "resourceVersion")}
        return {
            **{name: value for name, value in old.items() if name != "status"},
            "metadata": metadata,
            **_pick_fields(new, "status"),
        }
    if target.subresource == "":
        return {**{name: value for name, value in new.items() if name != "status"}, **_pick_fields(old, "status")}
    return new


def _pick_fields(obj: Object, *names: str) -> Object:
    return {name: obj[name] for name in names if name in obj}


def _require_revision(target: UpdateTarget, new: Object) -> None:
    resource, said = target.kind.resource, new["metadata"].get("resourceVersion")
    if said and not (said.isascii() and said.isdigit()):
        raise ApiError(500, "", f"strconv.ParseUint: parsing {quote(said)}: invalid syntax")
    if said or target.kind.unconditional_update:
        return
    error = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
    raise invalid_kind(resource.group, resource.plural, target.key.name, [error])


def _require_same_object(target: UpdateTarget, new: Object, old: Object) -> None:
    said, actual = new["metadata"].get("uid") or "", old["metadata"]["uid"]
    if said and said != actual:
        resource = target.kind.resource
        place = f"{resource.group}/{resource.plural}" if target.kind.custom else resource.plural
        detail = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{path_of(target.key)}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {said}, "
            f"UID in object meta: {actual}"
        )
        raise conflict(resource, target.key.name, detail)
