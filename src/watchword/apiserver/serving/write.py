"""The verbs create and update: identity, revision and metadata of what is written."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, finalizers_of, is_deleting
from watchword.api.resources import NAMESPACES
from watchword.api.time import rfc3339
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.field_errors import invalid as invalid_field
from watchword.apiserver.serving.field_errors import required
from watchword.apiserver.serving.model import ApiError, Entropy, ResourceKind
from watchword.apiserver.serving.object_storage import bucket_of, encode_object
from watchword.apiserver.serving.pipeline import VerbDependencies, VerbResult, WriteRequest, track_managed_fields
from watchword.apiserver.store.model import Record, RevisionConflict, path_of

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
GENERATED_NAME_ATTEMPTS = 8


def _require_namespace_open(tools: VerbDependencies, kind: ResourceKind, key: ObjectKey) -> None:
    namespaces = tools.kinds.find("", "v1", NAMESPACES.plural)
    if namespaces is None or not kind.resource.namespaced:
        return  # a plane without namespaces has nothing to check against
    namespace = tools.objects.store.get(bucket_of(namespaces), key.namespace)
    if namespace is None:
        raise errors.not_found(NAMESPACES, key.namespace)
    if b'"deletionTimestamp"' in namespace.body and is_deleting(tools.objects.decode(namespaces, namespace)):
        raise _terminating(kind, key)


def _terminating(kind: ResourceKind, key: ObjectKey) -> ApiError:
    reason = f"unable to create new content in namespace {key.namespace} because it is being terminated"
    refusal = errors.forbidden(kind.resource, key.name, reason)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {key.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = {**(refusal.details or {}), "causes": [cause]}
    return refusal


async def create(
    tools: VerbDependencies, kind: ResourceKind, namespace: str, obj: Object, call: WriteRequest
) -> VerbResult:
    require_type(kind, obj)
    require_namespace(kind, obj, namespace)
    metadata = obj["metadata"]
    if metadata.get("resourceVersion") not in {None, "", "0"}:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    metadata.pop("resourceVersion", None)
    if not metadata.get("name"):
        metadata["name"] = _generate_name(tools, kind, namespace, metadata.get("generateName"))
    key = ObjectKey(namespace, metadata["name"])
    set_new_object_metadata(obj, now=tools.now(), entropy=tools.entropy)
    operation = call.operation("create", kind, key, new=obj, old=None)
    _require_namespace_open(tools, kind, key)
    if kind.custom and "status" in kind.subresources:
        obj.pop("status", None)
    if kind.has_generation:  # the client's value counts only for kinds without generations
        metadata["generation"] = 1
    track_managed_fields(operation, call, tools.now)
    await tools.mutate(operation)
    await tools.validate_write(operation)
    if call.dry_run:
        if tools.objects.latest(kind, key) is not None:
            raise errors.already_exists(kind.resource, key.name)
        return VerbResult(encode_object(obj), 201)
    try:
        record = await tools.objects.write(kind, key, obj, expected=0)
    except RevisionConflict:
        raise errors.already_exists(kind.resource, key.name) from None
    return VerbResult(tools.objects.wire(kind, record), 201)


def _generate_name(tools: VerbDependencies, kind: ResourceKind, namespace: str, prefix: str | None) -> str:
    if not prefix:
        missing = required("metadata.name", "name or generateName is required")
        raise errors.invalid(kind.resource, "", [missing])
    for _ in range(GENERATED_NAME_ATTEMPTS):
        name = generated_name(prefix, tools.entropy)
        if tools.objects.latest(kind, ObjectKey(namespace, name)) is None:
            return name
    refusal = errors.already_exists(kind.resource, name)
    refusal.message += ", the server was not able to generate a unique name for the object"
    refusal.details = {**(refusal.details or {}), "retryAfterSeconds": 1}
    raise refusal


def require_type(kind: ResourceKind, obj: Object) -> None:
    """Fill in or check apiVersion and kind; 400 when they name another kind."""
    resource = kind.resource
    version, name = obj.get("apiVersion"), obj.get("kind")
    if kind.custom and not (name and version):
        missing = "apiVersion" if name else "Kind"
        raise errors.bad_request(f"Object '{missing}' is missing in the body")
    if version and version != resource.api_version:
        raise errors.bad_request(_wrong_version(kind, str(version), str(name or resource.kind)))
    if name and name != resource.kind:
        if kind.custom:
            said = str((obj.get("metadata") or {}).get("name") or "")
            raise errors.invalid_kind(
                resource.group, str(name), said, [invalid_field("kind", name, f"must be {resource.kind}")]
            )
        package = resource.group.partition(".")[0] or "core"
        raise errors.bad_request(
            f'{name} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({resource.version}.{name}) to ({package}.{resource.kind}): unknown conversion"
        )
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise errors.bad_request(f"{resource.kind} cannot be read: metadata must be an object")


def _wrong_version(kind: ResourceKind, version: str, name: str) -> str:
    resource = kind.resource
    if kind.custom:
        return (
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    return f'{name} in version "{version}" cannot be handled as a {resource.kind}: {unregistered(version, name)}'


def unregistered(version: str, name: str) -> str:
    return f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'


def require_namespace(kind: ResourceKind, obj: Object, namespace: str) -> None:
    """Fill in or check the namespace; 400 when it is another than the URL's."""
    metadata = obj["metadata"]
    expected = namespace if kind.resource.namespaced else ""
    if (metadata.get("namespace") or expected) != expected:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if expected:
        metadata["namespace"] = expected
    else:
        metadata.pop("namespace", None)


def require_name(obj: Object, key: ObjectKey) -> None:
    """Check the name; 400 when it is missing or another than the URL's."""
    said = obj["metadata"].get("name") or ""
    if not said:
        raise errors.bad_request(
            f"the name of the object ({key.name} based on URL) was undeterminable: name must be provided"
        )
    if said != key.name:
        raise errors.bad_request(f"the name of the object ({said}) does not match the name on the URL ({key.name})")


SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def set_new_object_metadata(obj: Object, *, now: datetime, entropy: Entropy) -> None:
    """Give a new object its identity; what the client claimed of it is dropped."""
    metadata = obj["metadata"]
    for claimed in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(claimed, None)
    metadata["uid"] = make_uuid(entropy)
    metadata["creationTimestamp"] = rfc3339(now)


def make_uuid(entropy: Entropy) -> str:
    digits = entropy(16).hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def generated_name(prefix: str, entropy: Entropy) -> str:
    return prefix[:58] + "".join(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in entropy(5))


def keep_stored_metadata(new: Object, old: Object) -> None:
    """Give an updated object the identity it already has; what it claims instead is left for validation."""
    ours, theirs = new["metadata"], old["metadata"]
    ours["uid"] = ours.get("uid") or theirs["uid"]
    ours.update(_pick_fields(theirs, "creationTimestamp", "generation", "deletionTimestamp"))
    if "deletionGracePeriodSeconds" in theirs:
        ours.setdefault("deletionGracePeriodSeconds", theirs["deletionGracePeriodSeconds"])
    for name in ({"creationTimestamp", "generation"} - theirs.keys()) | {"selfLink"}:
        ours.pop(name, None)


def bump_generation(kind: ResourceKind, new: Object, old: Object) -> None:
    """Count a change of anything but metadata and status."""
    if not kind.has_generation:
        return
    ignored = {"metadata", "apiVersion", "kind"}
    if "status" in kind.subresources or not kind.custom:
        ignored.add("status")
    if any(new.get(name) != old.get(name) for name in {*new, *old} - ignored):
        new["metadata"]["generation"] = int(old["metadata"].get("generation") or 0) + 1


def is_same(new: Object, old: Object) -> bool:
    """Whether an update changes nothing; times in managedFields alone are no change."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    return _comparable(new["metadata"]) == _comparable(old["metadata"])


def _comparable(metadata: Object) -> Object:
    view = {name: value for name, value in metadata.items() if name not in {"resourceVersion", "managedFields"}}
    view["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or []
    ]
    return view


ATTEMPTS = 20

Mutation = Callable[[Object], Object]
"""Returns the wanted object from (a copy of its own of) the stored one; called anew for every attempt."""


class UpdateTarget(Struct, frozen=True):
    """What is to be changed."""

    kind: ResourceKind
    key: ObjectKey
    subresource: str = ""
    verb: str = "update"


def require_identity(target: UpdateTarget, obj: Object) -> None:
    """Check kind, name and namespace of a body against the URL, and fill in what it leaves out."""
    require_type(target.kind, obj)
    require_name(obj, target.key)
    require_namespace(target.kind, obj, target.key.namespace)


async def replace(
    tools: VerbDependencies, target: UpdateTarget, body: Callable[[], Object], call: WriteRequest
) -> VerbResult:
    """PUT: the body is the whole new object. 404 when there is none to replace."""

    def read() -> Object:
        new = body()
        require_identity(target, new)
        return new

    def replaced(old: Object) -> Object:
        new = read()
        _require_revision(target, new)
        _require_same_object(target, new, old)
        return new

    try:
        return await revise(tools, target, replaced, call)
    except ApiError as refusal:
        if refusal.reason != "NotFound" or not target.kind.create_on_update or target.subresource:
            raise
    call.may_create()
    return await create(tools, target.kind, target.key.namespace, read(), call)


async def revise(tools: VerbDependencies, target: UpdateTarget, change: Mutation, call: WriteRequest) -> VerbResult:
    """Change one object by a function; retry after a conflict unless the caller set a resourceVersion."""
    for _ in range(ATTEMPTS):
        record = tools.objects.latest(target.kind, target.key)
        if record is None:
            raise errors.not_found(target.kind.resource, target.key.name)
        old = tools.objects.decode(target.kind, record)
        new = change(tools.objects.decode(target.kind, record))
        wanted = new["metadata"].get("resourceVersion") or ""
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            await tools.objects.store.flush()
            raise errors.conflict(target.kind.resource, target.key.name, MODIFIED)
        try:
            return await _commit(tools, target, record, old, new, call)
        except RevisionConflict:
            continue
    raise errors.server_timeout(target.kind.resource, target.verb)


async def _commit(
    tools: VerbDependencies, target: UpdateTarget, stored: Record, old: Object, new: Object, call: WriteRequest
) -> VerbResult:
    kind, objects = target.kind, tools.objects
    new = _merged_for(target, new, old)
    keep_stored_metadata(new, old)
    operation = call.operation("update", kind, target.key, new=new, old=old, subresource=target.subresource)
    track_managed_fields(operation, call, tools.now)
    await tools.mutate(operation)
    bump_generation(kind, new, old)
    await tools.validate_write(operation)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if call.dry_run:
        return VerbResult(encode_object(new))
    if is_released(new):
        # Watchers see the last stored state; the caller sees what it requested.
        await objects.write(kind, target.key, old, stored.revision, deleted=True)
        return VerbResult(encode_object(new))
    if is_same(new, old):
        await objects.store.flush()  # the response must be durable, although nothing was written
        return VerbResult(objects.wire(kind, stored))
    return VerbResult(objects.wire(kind, await objects.write(kind, target.key, new, stored.revision)))


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
        metadata = new["metadata"]
        if kind.custom:
            metadata = {**old["metadata"], **_pick_fields(metadata, "managedFields", "resourceVersion")}
        kept, status = {**old, "metadata": metadata}, _pick_fields(new, "status")
    elif target.subresource == "":
        kept, status = new, _pick_fields(old, "status")
    else:
        return new
    return {**{name: value for name, value in kept.items() if name != "status"}, **status}


def _pick_fields(obj: Object, *names: str) -> Object:
    return {name: obj[name] for name in names if name in obj}


def _require_revision(target: UpdateTarget, new: Object) -> None:
    resource, said = target.kind.resource, new["metadata"].get("resourceVersion")
    if said and not (said.isascii() and said.isdigit()):
        raise ApiError(500, "", f"strconv.ParseUint: parsing {errors.quote(said)}: invalid syntax")
    if said or target.kind.unconditional_update:
        return
    error = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
    raise errors.invalid_kind(resource.group, resource.plural, target.key.name, [error])


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
        raise errors.conflict(resource, target.key.name, detail)
