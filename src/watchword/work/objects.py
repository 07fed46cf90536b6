"""Reads, writes and removes single objects of the managed cluster, without harming what other works own."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from msgspec import Struct, field

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, ObjectRef, Resource, is_deleting, is_owned_by, uid_of
from watchword.api.names import ConditionType
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.kube.client import Client, PatchType, object_path
from watchword.kube.errors import ApiStatusError, Forbidden, NotFound
from watchword.kube.request_sender import decode
from watchword.kube.rest_mapper import RestMapper
from watchword.runtime.api_errors import describe_api_error
from watchword.runtime.cache import Cache
from watchword.runtime.diff import choose_owner_references
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Reader
from watchword.work.applied_work_store import AppliedResource, AppliedWorkStore, read_applied_resources
from watchword.work.object_watches import ObjectWatches
from watchword.work.plan import FIELD_MANAGER, Strategy, choose_manifest_config


class ObjectClient(Struct, frozen=True):
    """Reads what is watched from the watch, and stores the answers to writes there."""

    client: Client
    watches: ObjectWatches

    async def read(self, target: ObjectRef) -> Object | None:
        """Return an object, None when it does not exist; without the record of its field managers when watched."""
        if self.watches.has_synced(target):
            return self.watches.get(target)
        try:
            return await self.get(target.resource, target.key)
        except NotFound:
            return None

    async def get(self, resource: Resource, key: ObjectKey) -> Object:
        """Return an object as the server has it now; raises `NotFound`."""
        return self._store(resource, await self.client.get(resource, key))

    async def write(
        self,
        method: str,
        target: ObjectRef,
        body: Mapping[str, Any],
        *,
        content_type: str = PatchType.MERGE,
        tried_by: Client | None = None,
        **query: str,
    ) -> Object:
        """Send a request to create or patch an object; one that is `tried_by` another client changes nothing."""
        resource, key = target.resource, target.key
        path = resource.path(namespace=key.namespace) if method == "POST" else object_path(resource, key)
        query = {"fieldManager": FIELD_MANAGER, **query, "dryRun": "All" if tried_by else ""}
        client = tried_by or self.client
        stored = decode(await client.request(method, path, body=body, query=query, content_type=content_type))
        return stored if tried_by else self._store(resource, stored)

    async def delete(self, target: ObjectRef, present: Object) -> None:
        """Delete this very object as it was looked at; what depends on it follows in the background."""
        version = str(present["metadata"].get("resourceVersion") or "")
        with suppress(NotFound):
            await self.client.delete(target.resource, target.key, uid=uid_of(present), resource_version=version)

    def _store(self, resource: Resource, stored: Object) -> Object:
        self.watches.store(ObjectRef(resource, ObjectKey.of(stored)), stored)
        return stored


class RemovalFailure(Struct, frozen=True):
    """Why an object could not be removed."""

    target: ObjectRef
    error: ApiStatusError

    def __str__(self) -> str:
        return f"{self.target} cannot be removed: {describe_api_error(self.error, self.target)}"


class ObjectRemover(Struct, frozen=True):
    """Deletes objects that this work alone owns, and removes its owner reference from others."""

    objects: ObjectClient
    rest_mapper: RestMapper
    failures: dict[ObjectKey, str] = field(default_factory=dict)  # why a record cannot be emptied, while it cannot

    async def resolve(self, applied: Iterable[AppliedResource]) -> dict[AppliedResource, ObjectRef]:
        """Return the objects of entries of a record, under the kinds by which they are followed.

        Kinds that are no longer served have no objects either, and are left out.
        """
        found: dict[AppliedResource, ObjectRef] = {}
        for one in applied:
            resource = await self.rest_mapper.resource(one.group, one.version, one.resource)
            if resource is not None:
                found[one] = ObjectRef(resource, one.target.key)
        return found

    async def remove(
        self, targets: dict[AppliedResource, ObjectRef], owner: Object, *, keep: Callable[[ObjectRef], bool]
    ) -> tuple[list[AppliedResource], RemovalFailure | None]:
        """Delete or release each object; return what is still there, and the first refusal if there was one."""
        left: list[AppliedResource] = []
        failure: RemovalFailure | None = None
        for one, target in targets.items():
            try:
                is_left = await self._remove(one, target, owner, keep=keep(target))
            except ApiStatusError as error:
                # Without a UID it was never applied; had it been created all the same, it would go with its owner.
                is_left = bool(one.uid) or not isinstance(error, Forbidden)
                failure = failure or (RemovalFailure(target, error) if is_left else None)
            if is_left:
                left.append(one)
        return left, failure

    async def _remove(self, applied: AppliedResource, target: ObjectRef, owner: Object, *, keep: bool) -> bool:
        present = await self.objects.read(target)
        action = decide_removal(applied, present, owner_uid=owner["uid"], keep=keep)
        if present is not None and action is RemovalAction.DISOWN:
            owners = choose_owner_references(present["metadata"], without=owner["uid"])
            patch = with_preconditions(present, {"metadata": {"ownerReferences": owners or None}})
            with suppress(NotFound):  # another client was faster
                await self.objects.write("PATCH", target, patch)
        if present is not None and action is RemovalAction.DELETE:
            await self.objects.delete(target, present)
        return action in (RemovalAction.DELETE, RemovalAction.WAIT)


class RemovalAction(Enum):
    """What to do with an object that is no longer wanted."""

    NOTHING = auto()  # it is gone, replaced, or not ours
    DISOWN = auto()
    DELETE = auto()
    WAIT = auto()


def decide_removal(applied: AppliedResource, present: Object | None, *, owner_uid: str, keep: bool) -> RemovalAction:
    """Decide about an object from what it says itself: only what carries our reference is ours to delete.

    A client that deleted and recreated it, took it over, or owns it with us must not lose it.
    """
    if present is None or (applied.uid and uid_of(present) != applied.uid) or not is_owned_by(present, owner_uid):
        return RemovalAction.NOTHING
    if keep or len(present["metadata"]["ownerReferences"]) > 1:
        return RemovalAction.DISOWN
    return RemovalAction.WAIT if is_deleting(present) else RemovalAction.DELETE


OBJECT_INDEX = "object"
WRITING = frozenset({Strategy.UPDATE, Strategy.SERVER_SIDE_APPLY})


def index_by_object(record: Object) -> list[str]:
    """Return one value for each object of a record: the index `OBJECT_INDEX`."""
    return ["/".join(one.identity) for one in read_applied_resources(record)]


class SharedObjects(Struct, frozen=True):
    """Looks into the records of all works on the cluster: of this agent, of others, and of other hubs."""

    records: Cache
    store: AppliedWorkStore
    works: Reader  # on the hub
    cluster_name: str

    def others(self, record: Object, target: ObjectRef) -> list[Object]:
        """Return the other records that name an object, whether it was applied for them or not."""
        keys = self.records.index_keys(APPLIED_MANIFEST_WORKS, OBJECT_INDEX, "/".join(target.identity))
        found = [self.records.get(APPLIED_MANIFEST_WORKS, key) for key in keys if key != ObjectKey.of(record)]
        return [one for one in found if one is not None and not is_deleting(one)]

    def is_kept(self, record: Object, target: ObjectRef) -> bool:
        """Whether an object has been applied for another work, too, so that it stays when this one lets it go."""
        return any(_has_applied(other, target) for other in self.others(record, target))

    def choose_deciding_work(self, record: Object, others: Iterable[Object], target: ObjectRef) -> str:
        """Return the older work that says what an object holds, empty when the work of the record does."""
        rivals = [other for other in others if _has_applied(other, target) and self._is_applying(other, target)]
        first = choose_oldest([record, *rivals])
        if first is record:
            return ""
        name = str(first["spec"].get("manifestWorkName") or "")
        if ObjectKey.of(first) == self.store.key(name):
            return name
        return f"{name} of another hub (AppliedManifestWork {ObjectKey.of(first)})"

    def works_affected_by(self, record: Object) -> list[ObjectKey]:
        others = [other for one in read_applied_resources(record) for other in self.others(record, one.target)]
        names = [(one.get("spec") or {}).get("manifestWorkName") for one in (record, *others)]
        return [ObjectKey(self.cluster_name, name) for name in dict.fromkeys(names) if name and isinstance(name, str)]

    def _is_applying(self, record: Object, target: ObjectRef) -> bool:
        spec, name = record["spec"], str(record["spec"].get("manifestWorkName") or "")
        if spec.get("agentID") != self.store.agent:
            return not (record.get("status") or {}).get("evictionStartTime")
        work = self.works.get(MANIFEST_WORKS, ObjectKey(self.cluster_name, name))
        if work is None or ObjectKey.of(record) != self.store.key(name):  # the record waits for its eviction
            return False
        config = choose_manifest_config(work.get("spec") or {}, target)
        return config.strategy in WRITING and not is_deleting(work) and not is_true(work, ConditionType.WORK_COMPLETE)


def _has_applied(record: Object, target: ObjectRef) -> bool:
    return any(one.identity == target.identity and one.uid for one in read_applied_resources(record))


def choose_oldest(records: Iterable[Object]) -> Object:
    """Return the record that was created first, of several in one second the first by name."""
    return min(records, key=lambda record: (record["metadata"]["creationTimestamp"], record["metadata"]["name"]))
