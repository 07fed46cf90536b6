"""Keeps the record, on the managed cluster, of what each work has applied."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from watchword.api.meta import Object, ObjectKey, ObjectRef, Resource, finalizers_of, is_deleting, rows_at
from watchword.api.names import Finalizer
from watchword.api.resources import APPLIED_MANIFEST_WORKS
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Reader
from watchword.runtime.status import StatusChange, StatusWriter


class AppliedResource(Struct, frozen=True):
    """One object that a work has applied, or was about to apply when the UID is empty."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> AppliedResource:
        return cls(*(str(row.get(field) or "") for field in cls.__struct_fields__))

    @classmethod
    def of(cls, target: ObjectRef, uid: str = "") -> AppliedResource:
        resource, key = target.resource, target.key
        return cls(resource.group, resource.version, resource.plural, key.namespace, key.name, uid)

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.group, self.resource, self.namespace, self.name

    @property
    def target(self) -> ObjectRef:
        """Return the object; its kind is not on record, and not needed to read or delete it."""
        resource = Resource(self.group, self.version, self.resource, "", namespaced=bool(self.namespace))
        return ObjectRef(resource, ObjectKey(self.namespace, self.name))

    def row(self) -> Object:
        return {name: value for name, value in asdict(self).items() if value}


def read_applied_resources(record: Mapping[str, Any]) -> list[AppliedResource]:
    return [AppliedResource.read(row) for row in rows_at(record, "status", "appliedResources")]


class AppliedWorkStore(Struct, frozen=True):
    """Records before it acts: what was created and not recorded would be lost when the work changes meanwhile."""

    reader: Reader
    client: Client
    status: StatusWriter
    hub_server: Callable[[], str]
    agent: str  # the same for this agent always, another for every other agent of the cluster

    @property
    def hub(self) -> str:
        return hashlib.sha256(self.hub_server().encode()).hexdigest()

    def key(self, work: str) -> ObjectKey:
        return ObjectKey.cluster(f"{self.hub}-{work}")

    def find(self, work: str) -> Object | None:
        return self.reader.get(APPLIED_MANIFEST_WORKS, self.key(work))

    async def ensure(self, work: str) -> Object:
        """Return the record of a work, created when it is missing; it may be terminating."""
        present = self.find(work)
        if present is None:
            metadata = {"finalizers": [Finalizer.APPLIED_WORK]}
            wanted = APPLIED_MANIFEST_WORKS.manifest(self.key(work), metadata=metadata, spec=self._spec(work))
            try:
                return await self.client.create(APPLIED_MANIFEST_WORKS, wanted)
            except AlreadyExists:  # the cache is behind
                present = await self.client.get(APPLIED_MANIFEST_WORKS, self.key(work))
        return await self.adopt(present, work)

    async def adopt(self, record: Object, work: str) -> Object:
        """Adopt the record that an earlier agent kept of this work of the same hub."""
        patch: Object = {} if record.get("spec") == self._spec(work) else {"spec": self._spec(work)}
        if Finalizer.APPLIED_WORK not in finalizers_of(record) and not is_deleting(record):
            patch["metadata"] = {"finalizers": [*finalizers_of(record), Finalizer.APPLIED_WORK]}
        if not patch:
            return record
        return await self.client.patch(APPLIED_MANIFEST_WORKS, self.key(work), with_preconditions(record, patch))

    def _spec(self, work: str) -> Object:
        return {"hubHash": self.hub, "agentID": self.agent, "manifestWorkName": work}

    async def record_targets(self, record: Object, targets: Iterable[ObjectRef]) -> Object:
        recorded = read_applied_resources(record)
        known = {one.identity for one in recorded}
        new = [AppliedResource.of(target) for target in targets if target.identity not in known]
        return await self.write(record, [*recorded, *new]) if new else record

    async def write(self, record: Object, applied: Sequence[AppliedResource]) -> Object:
        """Make the record say exactly this; a work that is served is not evicted."""
        fields = {"appliedResources": [one.row() for one in applied] or None, "evictionStartTime": None}
        return await self.status.write(APPLIED_MANIFEST_WORKS, record, StatusChange(fields=fields))
