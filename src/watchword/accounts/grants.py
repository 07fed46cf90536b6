"""Rights of accounts on their clusters: recorded in a ConfigMap of the hub, carried out by ManifestWorks.

The record is in the namespace of the hub: a user who may declare accounts may not give them rights.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE, Annotation, Label
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, MANIFEST_WORKS, RBAC_GROUP, ROLE_BINDINGS

GRANTS = ObjectKey(HUB_NAMESPACE, f"{ADDON_NAME}-grants")
"""The ConfigMap that records the rights of accounts."""


class AccountRight(Struct, frozen=True):
    """A ClusterRole for an account: on the whole cluster, or in some namespaces; on all its clusters, or on some."""

    role: str
    namespaces: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """A short name of the role: names of roles may hold what names of works may not."""
        return hashlib.sha256(self.role.encode()).hexdigest()[:8]

    def entry(self, account: ObjectKey, uid: str) -> tuple[str, str]:
        """Return the line of the record; it counts for the account with that UID alone."""
        content = {
            "account": str(account),
            "uid": uid,
            "role": self.role,
            "namespaces": list(self.namespaces),
            "clusters": list(self.clusters),
        }
        return entry_name(account, self.role), orjson.dumps(content).decode()


def entry_name(account: ObjectKey, role: str) -> str:
    """Return under which name the right of an account is recorded; a namespace has no dot, so none collide."""
    return f"{account.namespace}.{account.name}.{AccountRight(role).mark}"


def find_rights(record: Object | None, account: ObjectKey, uids: set[str]) -> list[AccountRight]:
    """Return the recorded rights of an account; what cannot be read, or was for a former one, grants nothing."""
    rows = (_read(text) for text in ((record or {}).get("data") or {}).values())
    return [
        AccountRight(str(row["role"]), _names(row.get("namespaces")), _names(row.get("clusters")))
        for row in rows
        if row.get("account") == str(account) and row.get("uid") in uids and row.get("role")
    ]


def accounts_of_record(record: Object) -> list[ObjectKey]:
    named = {str(_read(text).get("account") or "") for text in (record.get("data") or {}).values()}
    return [ObjectKey(*name.split("/", 1)) for name in sorted(named) if "/" in name]


def account_of_work(work: Object) -> list[ObjectKey]:
    name = str((work["metadata"].get("annotations") or {}).get(Annotation.GRANT_OF) or "")
    return [ObjectKey(*name.split("/", 1))] if "/" in name else []


def grant_work(account: ObjectKey, cluster: str, right: AccountRight, namespace: str) -> Object:
    name = f"{ADDON_NAME}:{account.name}:{right.role}"
    content: Object = {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": right.role},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account.name}],
    }
    bindings = [ROLE_BINDINGS.manifest(ObjectKey(where, name), **content) for where in right.namespaces]
    bindings = bindings or [CLUSTER_ROLE_BINDINGS.manifest(ObjectKey.cluster(name), **content)]
    metadata = {"labels": {Label.ACCOUNT_GRANT: "true"}, "annotations": {Annotation.GRANT_OF: str(account)}}
    key = work_key(account, cluster, right)
    return MANIFEST_WORKS.manifest(key, metadata=metadata, spec={"workload": {"manifests": bindings}})


def granted_in(work: Object) -> tuple[str, ...]:
    """Return the namespaces in which a work binds its role; empty for the whole cluster."""
    rows = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or []
    return tuple(name for row in rows if (name := str(row["metadata"].get("namespace") or "")))


def work_key(account: ObjectKey, cluster: str, right: AccountRight) -> ObjectKey:
    return ObjectKey(cluster, f"{ADDON_NAME}-{account.name}-{right.mark}")


def _read(text: Any) -> dict[str, Any]:
    try:
        content = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return {}
    return content if isinstance(content, dict) else {}


def _names(rows: Any) -> tuple[str, ...]:
    return tuple(str(row) for row in rows) if isinstance(rows, Iterable) and not isinstance(rows, str) else ()
