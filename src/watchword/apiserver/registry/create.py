"""The verb create: a new object, a new identity."""

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.resources import NAMESPACES
from watchword.apiserver.errors import already_exists, forbidden, generate_name_conflict, invalid, not_found
from watchword.apiserver.field_errors import required
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.body_identity import require_namespace, require_type
from watchword.apiserver.registry.object_storage import KindTable, ObjectStorage, encode_object
from watchword.apiserver.registry.pipeline import VerbDependencies, VerbResult, WriteRequest
from watchword.apiserver.registry.system_fields import generated_name, set_new_object_metadata
from watchword.apiserver.store.model import RevisionConflict

GENERATED_NAME_ATTEMPTS = 8


def require_namespace_open(objects: ObjectStorage, kinds: KindTable, kind: ResourceKind, key: ObjectKey) -> None:
    if not kind.resource.namespaced:
        return
    namespaces = kinds.find("", "v1", NAMESPACES.plural)
    if namespaces is None:
        return  # a plane without namespaces has nothing to check against
    namespace = objects.get(namespaces, ObjectKey.cluster(key.namespace))
    if namespace is None:
        raise not_found(NAMESPACES, key.namespace)
    if is_deleting(namespace):
        raise _terminating(kind, key)


def _terminating(kind: ResourceKind, key: ObjectKey) -> ApiError:
    reason = f"unable to create new content in namespace {key.namespace} because it is being terminated"
    refusal = forbidden(kind.resource, key.name, reason)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {key.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = {**(refusal.details or {}), "causes": [cause]}
    return refusal


class Create(Struct, frozen=True):
    """Stores objects that did not exist."""

    tools: VerbDependencies

    async def __call__(self, kind: ResourceKind, namespace: str, obj: Object, call: WriteRequest) -> VerbResult:
        require_type(kind, obj)
        require_namespace(kind, obj, namespace)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion") not in {None, "", "0"}:
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        metadata.pop("resourceVersion", None)
        if metadata.get("name"):
            return await self._once(kind, ObjectKey(namespace, metadata["name"]), obj, call)
        prefix = metadata.get("generateName")
        if not prefix:
            missing = required("metadata.name", "name or generateName is required")
            raise invalid(kind.resource, "", [missing])
        return await self._generate(kind, namespace, obj, call)

    async def _generate(self, kind: ResourceKind, namespace: str, obj: Object, call: WriteRequest) -> VerbResult:
        for _ in range(GENERATED_NAME_ATTEMPTS):
            name = generated_name(obj["metadata"]["generateName"], self.tools.entropy)
            if self.tools.objects.latest(kind, ObjectKey(namespace, name)) is None:
                obj["metadata"]["name"] = name
                return await self._once(kind, ObjectKey(namespace, name), obj, call)
        raise generate_name_conflict(kind.resource, name)

    async def _once(self, kind: ResourceKind, key: ObjectKey, obj: Object, call: WriteRequest) -> VerbResult:
        tools = self.tools
        set_new_object_metadata(obj, now=tools.now(), entropy=tools.entropy)
        operation = call.operation("create", kind, key, new=obj, old=None)
        require_namespace_open(tools.objects, tools.kinds, kind, key)
        if kind.custom and "status" in kind.subresources:
            obj.pop("status", None)
        if kind.has_generation or kind.custom:  # the client's value counts only for kinds without generations
            obj["metadata"]["generation"] = 1
        tools.ownership.track(operation, call)
        await tools.pipeline.mutate(operation)
        await tools.pipeline.validate_write(operation)
        if tools.objects.latest(kind, key) is not None:
            raise already_exists(kind.resource, key.name)
        if call.dry_run:
            return VerbResult(encode_object(obj), 201)
        try:
            record = await tools.objects.put(kind, key, obj, expected=0)
        except RevisionConflict:
            raise already_exists(kind.resource, key.name) from None
        return VerbResult(tools.objects.wire(kind, record), 201)
