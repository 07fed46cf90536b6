"""Keeps the ServiceAccounts of managed accounts on the cluster: made, put right, removed, never taken from others."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from msgspec import Struct

from watchword.api.accounts import Account
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, NotFound
from watchword.runtime.ensure import Ensurer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Reader


class AgentAccount(Struct, frozen=True):
    """The ServiceAccount that the agent runs as: what it makes goes with it, and is never named like it."""

    name: str = ""
    uid: str = ""

    def owner_references(self) -> list[Object]:
        """Return the reference by which removing the agent removes every account that it made."""
        owner = {"apiVersion": "v1", "kind": SERVICE_ACCOUNTS.kind, "name": self.name, "uid": self.uid}
        return [owner] if self.name and self.uid else []


class ServiceAccounts(Struct, frozen=True):
    """The managed ServiceAccounts in the agent's namespace."""

    reader: Reader
    client: Client
    namespace: str
    agent: AgentAccount

    async def ensure(self, account: Account, declared: Sequence[Object]) -> Object:
        """Return the ServiceAccount as it stands afterwards.

        Raises `NameConflict` when one of that name exists that no managed account made, `BeingDeleted` while one goes
        that was made for an account of that name which is gone.
        """
        name = account.key.name
        if name == self.agent.name:
            raise NameConflict(f"{name} is the service account of the agent itself: choose another name")
        key = ObjectKey(self.namespace, name)
        await self._remove_predecessor(key, {uid_of(obj) for obj in declared})
        uids = {uid_of(obj) for obj in declared}
        metadata: Object = {
            "labels": {Label.MANAGED_ACCOUNT: "true"},
            "annotations": {Annotation.ACCOUNT_UID: account.uid},
        }
        owners = self.agent.owner_references()
        if owners:
            metadata["ownerReferences"] = owners
        wanted = SERVICE_ACCOUNTS.manifest(key, metadata=metadata, automountServiceAccountToken=False)
        try:
            return await Ensurer(self.reader, self.client).ensure(
                SERVICE_ACCOUNTS, wanted, ours=lambda present: is_made_for(present, uids)
            )
        except Forbidden:  # a manager of Open Cluster Management grants no changes: one of its agent serves as it is
            present = self.reader.get(SERVICE_ACCOUNTS, key)
            if present is None or is_deleting(present) or not is_made_for(present, uids):
                raise
            return present

    async def remove(self, name: str, *, look: bool = False) -> bool:
        """Delete the ServiceAccount if a managed account made it; return whether one is left.

        With `look`, the server is asked, too: the cache does not show one whose label was removed.
        """
        key = ObjectKey(self.namespace, name)
        found = self.reader.get(SERVICE_ACCOUNTS, key)
        if found is None and look:
            found = await self.client.find(SERVICE_ACCOUNTS, key)
        if found is None or not is_managed(found):
            return False
        if not is_deleting(found):
            with contextlib.suppress(NotFound):
                await self.client.delete(SERVICE_ACCOUNTS, ObjectKey.of(found), uid=uid_of(found))
        return self.reader.get(SERVICE_ACCOUNTS, ObjectKey.of(found)) is not None

    async def _remove_predecessor(self, key: ObjectKey, uids: set[str]) -> None:
        """Delete what an account of that name left that is gone: its tokens must not outlive it."""
        found = self.reader.get(SERVICE_ACCOUNTS, key)
        made_for = annotations_of(found or {}).get(Annotation.ACCOUNT_UID)
        if found is not None and made_for and made_for not in uids:
            await self.remove(key.name)
            raise BeingDeleted(f"service account {key} belongs to a deleted account of that name and is being removed")


def is_managed(present: Object) -> bool:
    """Whether a ServiceAccount was made for a managed account at all."""
    return Annotation.ACCOUNT_UID in annotations_of(present) or labels_of(present).get(Label.MANAGED_ACCOUNT) == "true"


def is_made_for(present: Object, uids: set[str]) -> bool:
    """Whether a ServiceAccount is that of the account: by UID, or by the label alone when an OCM agent made it."""
    made_for = annotations_of(present).get(Annotation.ACCOUNT_UID)
    if made_for:
        return made_for in uids
    return labels_of(present).get(Label.MANAGED_ACCOUNT) == "true"
