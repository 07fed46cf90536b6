"""Reads and changes single Secrets on the hub, with the rights that either kind of manager grants."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, Forbidden, NotFound
from watchword.runtime.diff import apply_merge_patch


class HubSecrets(Struct, frozen=True):
    """The Secrets of one cluster's accounts.

    The agent may read a Secret only by name, and only once the account owns it: a refusal means that there is none.
    """

    client: Client

    async def find(self, key: ObjectKey) -> Object | None:
        """Return a Secret, None when there is none that the agent may read."""
        try:
            return await self.client.find(SECRETS, key)
        except Forbidden:
            return None

    async def change(self, key: ObjectKey, uid: str, patch: Object) -> Object | None:
        """Change a Secret and return it, None when it is another one by now or none that the agent may change."""
        patch = {**patch, "metadata": {**patch["metadata"], "uid": uid}}
        try:
            return await self.client.patch(SECRETS, key, patch)
        except (NotFound, Conflict):
            return None
        except Forbidden:
            return await self._update(key, uid, patch)

    async def _update(self, key: ObjectKey, uid: str, patch: Object) -> Object | None:
        """Replace a Secret: a manager of Open Cluster Management grants `update`, and not `patch`."""
        found = await self.find(key)
        if found is None or uid_of(found) != uid:
            return None
        try:
            return await self.client.update(SECRETS, apply_merge_patch(found, patch))
        except (NotFound, Forbidden, Conflict):
            return None
