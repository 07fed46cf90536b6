"""Gives accounts their recorded rights on every cluster that they are on, as clusters come and go."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from watchword.accounts.grants import GRANTS, find_rights, grant_work
from watchword.accounts.hub.set_members import BY_SOURCE
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, uid_of
from watchword.api.names import Annotation
from watchword.api.resources import (
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    MANIFEST_WORKS,
)
from watchword.kube.errors import NotFound
from watchword.runtime.ensure import Ensurer
from watchword.runtime.reconcile import Done, Outcome, Reader

BY_GRANT = "grant"  # works by the account whose right they grant


class AccountGrantReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of both groups; also triggered by the record of rights, replicas and works."""

    reader: Reader
    ensurer: Ensurer

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Bring the works of an account in line with its recorded rights and its clusters."""
        found = [self.reader.get(kind, key) for kind in ACCOUNT_KINDS]
        declared = [obj for obj in found if obj is not None and not is_deleting(obj)]
        wanted = {ObjectKey.of(work): work for work in self._wanted(key, declared)}
        for work in self.reader.by_index(MANIFEST_WORKS, BY_GRANT, str(key)):
            if ObjectKey.of(work) not in wanted and not is_deleting(work):
                with contextlib.suppress(NotFound):
                    await self.ensurer.client.delete(MANIFEST_WORKS, ObjectKey.of(work), uid=uid_of(work))
        for work in wanted.values():
            await self.ensurer.ensure(MANIFEST_WORKS, work, ours=lambda present: _grants(present, key))
        return Done()

    def _wanted(self, key: ObjectKey, declared: list[Object]) -> list[Object]:
        rights = find_rights(self.reader.get(CONFIG_MAPS, GRANTS), key, {uid_of(obj) for obj in declared})
        works = []
        for cluster in self._clusters(key) if rights else ():
            addon = self.reader.get(MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, ADDON_NAME))
            if addon is None or is_deleting(addon):
                continue
            namespace = Addon.read(addon).namespace_on_cluster()
            chosen = [right for right in rights if not right.clusters or cluster in right.clusters]
            works += [grant_work(key, cluster, right, namespace) for right in chosen]
        return works

    def _clusters(self, key: ObjectKey) -> list[str]:
        if self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is not None:
            return [key.namespace]
        replicas = self.reader.by_index(MANAGED_SERVICE_ACCOUNTS, BY_SOURCE, str(key))
        return sorted(obj["metadata"]["namespace"] for obj in replicas if not is_deleting(obj))


def _grants(work: Object, account: ObjectKey) -> bool:
    return annotations_of(work).get(Annotation.GRANT_OF) == str(account)
