"""Gives accounts their recorded rights on clusters, and agents the right to the Secrets of their accounts."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.accounts.grants import GRANTS, find_rights, grant_work
from watchword.accounts.hub.definition import SECRETS_ROLE
from watchword.accounts.hub.replicas import BY_SOURCE
from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, is_owned_by
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, owner_reference, uid_of
from watchword.api.names import Annotation, Label
from watchword.api.time import parse_rfc3339
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer, delete_object
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

BY_GRANT = "grant"  # works by the account whose right they grant


class AccountGrantReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of both groups; also triggered by the record of rights, replicas and works."""

    reader: Reader
    ensurer: Ensurer

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = [self.reader.get(kind, key) for kind in ACCOUNT_KINDS]
        declared = [obj for obj in found if obj is not None and not is_deleting(obj)]
        wanted = {ObjectKey.of(work): work for work in self._wanted(key, declared)}
        for work in self.reader.by_index(resources.MANIFEST_WORKS, BY_GRANT, str(key)):
            if ObjectKey.of(work) not in wanted and not is_deleting(work):
                await delete_object(self.ensurer.client, resources.MANIFEST_WORKS, work)
        for work in wanted.values():
            await self.ensurer.ensure(resources.MANIFEST_WORKS, work, ours=lambda present: _grants(present, key))
        return Done()

    def _wanted(self, key: ObjectKey, declared: list[Object]) -> list[Object]:
        rights = find_rights(self.reader.get(resources.CONFIG_MAPS, GRANTS), key, {uid_of(obj) for obj in declared})
        works = []
        for cluster in self._clusters(key) if rights else ():
            addon = self.reader.get(resources.MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, ADDON_NAME))
            if addon is None or is_deleting(addon):
                continue
            namespace = Addon.read(addon).namespace_on_cluster()
            chosen = [right for right in rights if not right.clusters or cluster in right.clusters]
            works += [grant_work(key, cluster, right, namespace) for right in chosen]
        return works

    def _clusters(self, key: ObjectKey) -> list[str]:
        if self.reader.get(resources.MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) is not None:
            return [key.namespace]
        replicas = self.reader.by_index(resources.MANAGED_SERVICE_ACCOUNTS, BY_SOURCE, str(key))
        return sorted(obj["metadata"]["namespace"] for obj in replicas if not is_deleting(obj))


def _grants(work: Object, account: ObjectKey) -> bool:
    return annotations_of(work).get(Annotation.GRANT_OF) == str(account)


BY_NAMESPACE = "namespace"
SETTLING = timedelta(seconds=2)


class SecretAccessReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn; also triggered by the Secrets in the namespace of its cluster.

    A name is granted once the Secret belongs to the account of that name. A Secret of something else never is.
    """

    reader: Reader
    ensurer: Ensurer
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        addon = self.reader.get(resources.MANAGED_CLUSTER_ADDONS, key)
        if addon is None or is_deleting(addon) or key.name != ADDON_NAME:
            return Done()  # the Role belongs to the add-on and goes with it
        secrets = [
            secret
            for secret in self.reader.by_index(resources.SECRETS, BY_NAMESPACE, key.namespace)
            if is_owned_by(secret, [self.reader.get(kind, ObjectKey.of(secret)) for kind in ACCOUNT_KINDS])
        ]
        role = self.reader.get(resources.ROLES, ObjectKey(key.namespace, SECRETS_ROLE))
        granted = {name for row in (role or {}).get("rules") or () for name in row.get("resourceNames") or ()}
        if role is not None and is_settling(secrets, granted, now=self.clock.now()):
            return RetryAfter(SETTLING)
        names = [secret["metadata"]["name"] for secret in secrets]
        await self.ensurer.ensure(resources.ROLES, role_manifest(addon, names), ours=_is_ours)
        return Done()


def is_settling(secrets: Sequence[Object], granted: set[str], *, now: datetime) -> bool:
    """Whether all that changes is Secrets made a moment ago: their names are granted together with those that follow.

    The agent reads a Secret again at the earliest when it restarts, so there is no hurry.
    """
    names = {secret["metadata"]["name"] for secret in secrets}
    added = [secret for secret in secrets if secret["metadata"]["name"] not in granted]
    if not added or granted - names:
        return False
    created = [parse_rfc3339(str(secret["metadata"].get("creationTimestamp") or "")) for secret in added]
    return all(instant is not None and timedelta(0) <= now - instant < SETTLING for instant in created)


def role_manifest(addon: Object, names: list[str]) -> Object:
    """Return the Role; without names it grants nothing, for an empty list of names would mean every Secret."""
    rule = {"apiGroups": [""], "resources": [resources.SECRETS.plural], "verbs": ["get", "patch", "update"]}
    return resources.ROLES.manifest(
        ObjectKey(addon["metadata"]["namespace"], SECRETS_ROLE),
        metadata={"labels": {Label.ADDON_NAME: ADDON_NAME}, "ownerReferences": [owner_reference(addon)]},
        rules=[{**rule, "resourceNames": sorted(names)}] if names else None,  # as servers keep it
    )


def _is_ours(role: Object) -> bool:
    return labels_of(role).get(Label.ADDON_NAME) == ADDON_NAME
