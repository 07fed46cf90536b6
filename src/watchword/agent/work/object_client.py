"""Reads and writes single objects of the managed cluster, as one field manager and with as few requests as possible."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.agent.work.manifest_config import FIELD_MANAGER
from watchword.agent.work.manifests import ObjectRef
from watchword.agent.work.object_watches import ObjectWatches
from watchword.api.meta import Object, uid_of
from watchword.kube.client import Client, PatchType
from watchword.kube.errors import NotFound
from watchword.kube.responses import decode


@dataclass(frozen=True)
class ObjectClient:
    """What is followed is read from there; the answers to writes are remembered."""

    client: Client
    watches: ObjectWatches

    async def read(self, target: ObjectRef) -> Object | None:
        """Return an object, None when it is not there; without the record of its field managers when followed."""
        if self.watches.has_synced(target):
            return self.watches.get(target)
        return await self.fetch(target)

    async def fetch(self, target: ObjectRef) -> Object | None:
        """Return an object as the server has it now, None when it is not there."""
        found = await self.client.find(target.resource, target.key)
        if found is not None:
            self.watches.store(target, found)
        return found

    async def create(self, target: ObjectRef, obj: Object, *, by: Client | None = None) -> Object:
        """Create an object; `by` somebody else it is only tried."""
        path = target.resource.path(namespace=target.key.namespace)
        return await self._write("POST", target, path, obj, by=by)

    async def patch(self, target: ObjectRef, patch: Object, *, by: Client | None = None) -> Object:
        """Change an object by a merge patch; `by` somebody else it is only tried."""
        path = target.resource.path(target.key)
        return await self._write("PATCH", target, path, patch, content_type=PatchType.MERGE, by=by)

    async def apply(
        self, target: ObjectRef, obj: Object, *, manager: str, force: bool, by: Client | None = None
    ) -> Object:
        """Declare fields by server-side apply; `by` somebody else it is only tried."""
        client = by or self.client
        stored = await client.apply(target.resource, obj, manager=manager, force=force, dry_run=by is not None)
        if by is None:
            self.watches.store(target, stored)
        return stored

    async def delete(self, target: ObjectRef, present: Object) -> None:
        """Delete this very object as it was looked at; what depends on it follows in the background."""
        version = str(present["metadata"].get("resourceVersion") or "")
        try:
            await self.client.delete(target.resource, target.key, uid=uid_of(present), resource_version=version)
        except NotFound:
            return  # somebody was faster

    async def _write(
        self,
        method: str,
        target: ObjectRef,
        path: str,
        body: Object,
        *,
        content_type: str = "application/json",
        by: Client | None,
    ) -> Object:
        query = {"fieldManager": FIELD_MANAGER, "dryRun": "" if by is None else "All"}
        client = by or self.client
        stored = decode(await client.request(method, path, body=body, query=query, content_type=content_type))
        if by is None:
            self.watches.store(target, stored)
        return stored
