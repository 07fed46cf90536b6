"""The registry: the verbs for the control plane's own parts."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from watchword.api.json import copy_json
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver.serving import pipeline, write
from watchword.apiserver.serving.delete import DeleteOptions, delete
from watchword.apiserver.serving.errors import resource_not_found
from watchword.apiserver.serving.model import Entropy, Now, ResourceKind
from watchword.apiserver.serving.object_storage import KindTable, ObjectStorage, bucket_of, load_object
from watchword.apiserver.store.model import Record, Store, StoreEvent

_STATUS_FIELDS = ("apiVersion", "kind", "metadata", "status")
"""What the status endpoint reads of an object; the rest stays as it is stored."""


class ObjectRegistry:
    """The store behind the verbs, by the protocol `model.Registry`: for trusted callers only.

    Admission does not apply: the callers are parts of the control plane.
    """

    def __init__(self, store: Store, kinds: KindTable, *, now: Now, entropy: Entropy) -> None:
        self.objects = ObjectStorage(store)
        self.table = kinds
        self._tools = pipeline.VerbDependencies(self.objects, kinds, now, entropy)
        self._shared: tuple[Record, ResourceKind, Object] | None = None  # decoded for listeners

    def kind(self, group: str, version: str, plural: str) -> ResourceKind | None:
        return self.table.find(group, version, plural)

    def kinds(self) -> Sequence[ResourceKind]:
        return self.table.all()

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        return self.objects.get(self._require(resource), key)

    def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        kind = self._require(resource)
        return [self.objects.decode(kind, record) for record in self._records(kind, namespace)]

    async def create(self, resource: Resource, obj: Object, call: pipeline.WriteRequest | None = None) -> Object:
        kind, body, call = self._require(resource), copy_json(obj), call or pipeline.WriteRequest()
        pipeline.prune_and_default(kind, body, call)
        created = await write.create(self._tools, kind, ObjectKey.of(body).namespace, body, call)
        return load_object(created.body)

    async def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        kind, call = self._require(resource), pipeline.WriteRequest()
        stated = {name: obj[name] for name in _STATUS_FIELDS if name in obj} if subresource == "status" else obj

        def body() -> Object:
            fresh: Object = copy_json(stated)
            pipeline.prune_and_default(kind, fresh, call)
            return fresh

        target = write.UpdateTarget(kind, ObjectKey.of(obj), subresource)
        return load_object((await write.replace(self._tools, target, body, call)).body)

    async def delete(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        options = DeleteOptions(grace_seconds, uid, resource_version, propagation)
        await delete(self._tools, self._require(resource), key, options, pipeline.WriteRequest())

    def subscribe(self, resource: Resource, listener: Callable[[str, Object], None]) -> Callable[[], None]:
        """Subscribe; a listener that raises is reported and stays registered."""
        kind = self._require(resource)

        def deliver(event: StoreEvent) -> None:
            word = "DELETED" if event.deleted else "ADDED" if event.previous is None else "MODIFIED"
            try:
                listener(word, self._decoded_once(kind, event.record))
            except Exception as error:  # noqa: BLE001 - what is stored stays, and so does the server
                context = {"message": "a listener failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

        for record in self._records(kind, ""):
            deliver(StoreEvent(record, None))
        return self.objects.store.subscribe(bucket_of(kind), deliver)

    def _decoded_once(self, kind: ResourceKind, record: Record) -> Object:
        """Decode a record for all its listeners: they are called one after the other."""
        shared = self._shared
        if shared is None or shared[0] is not record or shared[1] is not kind:
            shared = self._shared = (record, kind, self.objects.decode(kind, record))
        return shared[2]

    def _records(self, kind: ResourceKind, namespace: str) -> Iterable[Record]:
        return self.objects.store.records(bucket_of(kind), namespace)

    def _require(self, resource: Resource) -> ResourceKind:
        kind = self.table.find(resource.group, resource.version, resource.plural)
        if kind is None:
            raise resource_not_found()
        return kind
