"""Keeps the Role that lets a cluster's agent read and change the Secrets of its accounts, each by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.accounts.hub.definition import SECRETS_ROLE
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, is_owned_by
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of, owner_reference
from watchword.api.names import Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, ROLES, SECRETS
from watchword.api.time import parse_rfc3339
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

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
        """Bring the named Secrets of the Role in line with those that the cluster's accounts own."""
        addon = self.reader.get(MANAGED_CLUSTER_ADDONS, key)
        if addon is None or is_deleting(addon) or key.name != ADDON_NAME:
            return Done()  # the Role belongs to the add-on and goes with it
        secrets = [
            secret
            for secret in self.reader.by_index(SECRETS, BY_NAMESPACE, key.namespace)
            if is_owned_by(secret, [self.reader.get(kind, ObjectKey.of(secret)) for kind in ACCOUNT_KINDS])
        ]
        role = self.reader.get(ROLES, ObjectKey(key.namespace, SECRETS_ROLE))
        if role is not None and is_settling(secrets, granted_names(role), now=self.clock.now()):
            return RetryAfter(SETTLING)
        names = [secret["metadata"]["name"] for secret in secrets]
        await self.ensurer.ensure(ROLES, role_manifest(addon, names), ours=_is_ours)
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


def granted_names(role: Object) -> set[str]:
    """Return the Secrets that the Role names."""
    return {name for row in role.get("rules") or () for name in row.get("resourceNames") or ()}


def role_manifest(addon: Object, names: list[str]) -> Object:
    """Return the Role; without names it grants nothing, for an empty list of names would mean every Secret."""
    rule = {"apiGroups": [""], "resources": [SECRETS.plural], "verbs": ["get", "patch", "update"]}
    return ROLES.manifest(
        ObjectKey(addon["metadata"]["namespace"], SECRETS_ROLE),
        metadata={"labels": {Label.ADDON_NAME: ADDON_NAME}, "ownerReferences": [owner_reference(addon)]},
        rules=[{**rule, "resourceNames": sorted(names)}] if names else None,  # as servers keep it
    )


def _is_ours(role: Object) -> bool:
    return labels_of(role).get(Label.ADDON_NAME) == ADDON_NAME
