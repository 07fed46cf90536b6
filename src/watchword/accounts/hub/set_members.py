"""Which clusters an account in a cluster-set namespace is on."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.api.accounts import ACCOUNT_KINDS, split_copy_name
from watchword.api.cluster import Cluster, is_accepted
from watchword.api.cluster_sets import is_member
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import Label
from watchword.api.resources import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
)
from watchword.runtime.reconcile import Reader

BY_NAMESPACE = "namespace"
BY_SOURCE = "source"  # replicas by the account that they replicate
BY_SET = "set"  # bindings by their set


def find_members(reader: Reader, namespace: str) -> list[Cluster] | None:
    """Return the accepted clusters of the sets that a namespace is bound to, None when it is bound to none."""
    bindings = reader.by_index(MANAGED_CLUSTER_SET_BINDINGS, BY_NAMESPACE, namespace)
    sets = [found for binding in bindings if (found := _bound_set(reader, binding)) is not None]
    if not sets:
        return None
    clusters = [Cluster.read(obj) for obj in reader.list(MANAGED_CLUSTERS)]
    return [
        cluster
        for cluster in clusters
        if is_accepted(cluster.object)
        and not cluster.deleting
        and any(is_member(found, labels_of(cluster.object)) for found in sets)
    ]


def _bound_set(reader: Reader, binding: Object) -> Object | None:
    """Return the set of a valid binding: one that is named like its set, which exists."""
    name = set_of(binding)
    if is_deleting(binding) or binding["metadata"]["name"] != name:
        return None
    found = reader.get(MANAGED_CLUSTER_SETS, ObjectKey.cluster(name))
    return None if found is None or is_deleting(found) else found


def set_of(binding: Object) -> str:
    """Return the set that a binding names."""
    return str((binding.get("spec") or {}).get("clusterSet") or "")


def accounts_of_namespace(reader: Reader, namespace: str) -> list[ObjectKey]:
    """Return the accounts in a namespace, of either group."""
    return [ObjectKey.of(obj) for kind in ACCOUNT_KINDS for obj in reader.by_index(kind, BY_NAMESPACE, namespace)]


def accounts_of_binding(reader: Reader, binding: Object) -> list[ObjectKey]:
    """Return the accounts for which a binding matters: those of its namespace."""
    return accounts_of_namespace(reader, binding["metadata"]["namespace"])


def accounts_of_set(reader: Reader, cluster_set: Object) -> list[ObjectKey]:
    """Return the accounts of all namespaces that are bound to a set."""
    bindings = reader.by_index(MANAGED_CLUSTER_SET_BINDINGS, BY_SET, cluster_set["metadata"]["name"])
    return [key for binding in bindings for key in accounts_of_binding(reader, binding)]


def accounts_of_cluster(reader: Reader, cluster: Object) -> list[ObjectKey]:
    """Return the accounts that are on a cluster, or have to be: those of the sets that it belongs to.

    The controller asks with the cluster as it was and as it is, so that both sides of a move are found.
    """
    sets = [found for found in reader.list(MANAGED_CLUSTER_SETS) if is_member(found, labels_of(cluster))]
    return [key for found in sets for key in accounts_of_set(reader, found)]


def source_of_replica(account: Object) -> list[ObjectKey]:
    """Map a replica to the account that it replicates; nothing for an account that a user made."""
    namespace = labels_of(account).get(Label.ACCOUNT_NAMESPACE)
    return [ObjectKey(namespace, account["metadata"]["name"])] if namespace else []


def accounts_of_secret(reader: Reader, secret: Object) -> Iterable[ObjectKey]:
    """Map a replica's Secret, or a copy of it in a cluster-set namespace, to the account in that namespace."""
    key = ObjectKey.of(secret)
    replica = reader.get(MANAGED_SERVICE_ACCOUNTS, key)
    if replica is not None:
        return source_of_replica(replica)
    if Label.ACCOUNT_NAMESPACE in labels_of(secret):
        return [ObjectKey(key.namespace, split_copy_name(key.name)[1])]
    return []
