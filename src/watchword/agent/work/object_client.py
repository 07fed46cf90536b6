"""Reads and writes single objects of the managed cluster, as one field manager and with as few requests as possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from watchword.agent.work.manifest_config import FIELD_MANAGER
from watchword.agent.work.object_watches import ObjectWatches
from watchword.api.meta import Object, ObjectKey, ObjectRef, Resource, uid_of
from watchword.kube.client import Client, PatchType
from watchword.kube.errors import NotFound
from watchword.kube.responses import decode


class ObjectClient(Struct, frozen=True):
    """Reads what is watched from the watch, and stores the answers to writes there.

    A write `by` another identity is only tried.
    """

    client: Client
    watches: ObjectWatches

    async def read(self, target: ObjectRef) -> Object | None:
        """Return an object, None when it is not there; without the record of its field managers when watched."""
        if self.watches.has_synced(target):
            return self.watches.get(target)
        try:
            return await self.get(target.resource, target.key)
        except NotFound:
            return None

    async def get(self, resource: Resource, key: ObjectKey) -> Object:
        """Return an object as the server has it now; raises `NotFound`."""
        return self._store(resource, await self.client.get(resource, key))

    async def create(self, resource: Resource, obj: Object, *, by: Client | None = None) -> Object:
        """Create an object."""
        path = resource.path(namespace=ObjectKey.of(obj).namespace)
        return await self._send("POST", resource, path, obj, by=by)

    async def patch(
        self, resource: Resource, key: ObjectKey, patch: Mapping[str, Any], *, by: Client | None = None
    ) -> Object:
        """Change an object by a merge patch."""
        return await self._send("PATCH", resource, resource.path(key), patch, by=by)

    async def apply(
        self, resource: Resource, obj: Object, *, manager: str, force: bool, by: Client | None = None
    ) -> Object:
        """Change an object by server-side apply."""
        client = by or self.client
        stored = await client.apply(resource, obj, manager=manager, force=force, dry_run=by is not None)
        return stored if by else self._store(resource, stored)

    async def delete(self, target: ObjectRef, present: Object) -> None:
        """Delete this very object as it was looked at; what depends on it follows in the background."""
        version = str(present["metadata"].get("resourceVersion") or "")
        try:
            await self.client.delete(target.resource, target.key, uid=uid_of(present), resource_version=version)
        except NotFound:
            return  # it is gone already

    async def _send(
        self, method: str, resource: Resource, path: str, body: Mapping[str, Any], *, by: Client | None
    ) -> Object:
        query = {"fieldManager": FIELD_MANAGER, "dryRun": "" if by is None else "All"}
        content_type = PatchType.MERGE if method == "PATCH" else "application/json"
        response = await (by or self.client).request(method, path, body=body, query=query, content_type=content_type)
        stored = decode(response)
        return stored if by else self._store(resource, stored)

    def _store(self, resource: Resource, stored: Object) -> Object:
        self.watches.store(ObjectRef(resource, ObjectKey.of(stored)), stored)
        return stored
