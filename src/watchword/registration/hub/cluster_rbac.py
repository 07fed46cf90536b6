"""The rights an accepted cluster has on the hub, as manifests."""

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey, owner_reference
from watchword.api.names import (
    ADDON_GROUP,
    CLUSTER_GROUP,
    COMMON_REGISTRATION_ROLE,
    COMMON_WORK_ROLE,
    REGISTER_GROUP,
    WORK_GROUP,
    Finalizer,
    Label,
    cluster_group,
    cluster_group_plain,
    cluster_role,
    registration_binding,
    work_binding,
)
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, RBAC_GROUP, ROLE_BINDINGS


def rule(
    groups: str | list[str], resources: str | list[str], verbs: list[str], names: list[str] | None = None
) -> Object:
    row: Object = {
        "apiGroups": [groups] if isinstance(groups, str) else groups,
        "resources": [resources] if isinstance(resources, str) else resources,
        "verbs": verbs,
    }
    if names is not None:
        row["resourceNames"] = names
    return row


def accepted_rules(name: str) -> list[Object]:
    """Return what an accepted agent may do outside its namespace.

    Certificate requests cannot be restricted by name, since the server chooses the names; they contain no secret.
    The right to renew is not restricted either, as Open Cluster Management's agents request it without a name: the
    comparison of requester and subject keeps a cluster from renewing another's certificate.
    """
    return [
        rule("certificates.k8s.io", "certificatesigningrequests", ["create", "get", "list", "watch"]),
        rule(REGISTER_GROUP, "managedclusters/clientcertificates", ["renew"]),
        rule(CLUSTER_GROUP, "managedclusters", ["get", "list", "update", "watch"], [name]),
        rule(CLUSTER_GROUP, "managedclusters/status", ["patch", "update"], [name]),
    ]


def denied_rules(name: str) -> list[Object]:
    """Return what is left to a denied agent: to see that it was denied."""
    return [rule(CLUSTER_GROUP, "managedclusters", ["get", "list", "watch"], [name])]


COMMON_ROLES: dict[str, list[Object]] = {
    COMMON_REGISTRATION_ROLE: [
        rule("coordination.k8s.io", "leases", ["get", "list", "watch", "update", "patch"]),
        rule(ADDON_GROUP, "managedclusteraddons", ["get", "list", "watch"]),
        rule(ADDON_GROUP, "managedclusteraddons/status", ["patch", "update"]),
        rule("events.k8s.io", "events", ["create", "patch", "update"]),
    ],
    COMMON_WORK_ROLE: [
        rule(["", "events.k8s.io"], "events", ["create", "patch", "update"]),
        rule(WORK_GROUP, "manifestworks", ["get", "list", "watch", "update", "patch"]),
        rule(WORK_GROUP, "manifestworks/status", ["patch", "update"]),
    ],
}
"""The roles every cluster is bound to in its own namespace."""


def cluster_subjects(name: str) -> list[Object]:
    return [
        {"kind": "Group", "apiGroup": RBAC_GROUP, "name": group}
        for group in (cluster_group(name), cluster_group_plain(name))
    ]


def _metadata(cluster: Cluster) -> Object:
    return {
        "labels": {Label.CLUSTER_NAME: cluster.name},
        "ownerReferences": [owner_reference(cluster.object)],
    }


def _role_ref(name: str) -> Object:
    return {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name}


def namespace_manifest(cluster: Cluster) -> Object:
    """Return the cluster's namespace; it outlives nothing, but is removed last and by hand, not by ownership."""
    return NAMESPACES.manifest(cluster.namespace_key, metadata={"labels": {Label.CLUSTER_NAME: cluster.name}})


def cluster_role_manifest(cluster: Cluster, rules: list[Object]) -> Object:
    key = ObjectKey.cluster(cluster_role(cluster.name))
    return CLUSTER_ROLES.manifest(key, metadata=_metadata(cluster), rules=rules)


def cluster_role_binding_manifest(cluster: Cluster, subjects: list[Object]) -> Object:
    key = ObjectKey.cluster(cluster_role(cluster.name))
    return CLUSTER_ROLE_BINDINGS.manifest(
        key, metadata=_metadata(cluster), roleRef=_role_ref(key.name), subjects=subjects
    )


def registration_binding_manifest(cluster: Cluster, subjects: list[Object]) -> Object:
    key = ObjectKey(cluster.name, registration_binding(cluster.name))
    return ROLE_BINDINGS.manifest(
        key,
        metadata=_metadata(cluster),
        roleRef=_role_ref(COMMON_REGISTRATION_ROLE),
        subjects=subjects,
    )


def work_binding_manifest(cluster: Cluster, subjects: list[Object]) -> Object:
    """Return the binding that lets the agent pull work, kept until no work is left."""
    key = ObjectKey(cluster.name, work_binding(cluster.name))
    return ROLE_BINDINGS.manifest(
        key,
        metadata={**_metadata(cluster), "finalizers": [Finalizer.MANIFEST_WORK]},
        roleRef=_role_ref(COMMON_WORK_ROLE),
        subjects=subjects,
    )
