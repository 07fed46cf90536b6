"""The rights an accepted cluster has on the hub, also under a name that an earlier cluster had."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, Resource, labels_of, mapping_at, owner_reference
from watchword.api.names import (
    ADDON_GROUP,
    CLUSTER_GROUP,
    COMMON_REGISTRATION_ROLE,
    COMMON_WORK_ROLE,
    HUB_NAMESPACE,
    REGISTER_GROUP,
    WORK_GROUP,
    ConditionType,
    Finalizer,
    Label,
    agent_user,
    cluster_group,
    cluster_group_plain,
    cluster_role,
    registration_binding,
    work_binding,
)
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    NAMESPACES,
    RBAC_GROUP,
    ROLE_BINDINGS,
)
from watchword.api.time import parse_rfc3339, rfc3339, rfc3339_micro
from watchword.api.validation import parse_seconds
from watchword.credentials.certificates.name_ownership import NameOwner, choose_name_owner, first_requests
from watchword.credentials.certificates.requests import is_pending
from watchword.kube.client import Client
from watchword.registration.catalog import HubDrivers
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.status import StatusWriter


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
    return {"labels": {Label.CLUSTER_NAME: cluster.name}, "ownerReferences": [owner_reference(cluster.object)]}


def namespace_manifest(cluster: Cluster) -> Object:
    """Return the cluster's namespace; it has no owner, because the hub deletes it after everything in it."""
    return NAMESPACES.manifest(cluster.key, metadata={"labels": {Label.CLUSTER_NAME: cluster.name}})


def cluster_role_manifest(cluster: Cluster, rules: list[Object]) -> Object:
    key = ObjectKey.cluster(cluster_role(cluster.name))
    return CLUSTER_ROLES.manifest(key, metadata=_metadata(cluster), rules=rules)


def binding_keys(cluster: str) -> tuple[ObjectKey, ObjectKey]:
    """Return the RoleBindings in a cluster's namespace: for its registration and for its work."""
    return ObjectKey(cluster, registration_binding(cluster)), ObjectKey(cluster, work_binding(cluster))


def binding_manifests(cluster: Cluster, subjects: list[Object]) -> tuple[Object, Object, Object]:
    """Return the ClusterRoleBinding and both RoleBindings; that for work is kept until no work is left."""
    everywhere, (registration, work) = ObjectKey.cluster(cluster_role(cluster.name)), binding_keys(cluster.name)
    kept = {"finalizers": [Finalizer.MANIFEST_WORK]}

    def bind(resource: Resource, key: ObjectKey, role: str, metadata: Object) -> Object:
        reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}
        return resource.manifest(key, metadata=_metadata(cluster) | metadata, roleRef=reference, subjects=subjects)

    return (
        bind(CLUSTER_ROLE_BINDINGS, everywhere, everywhere.name, {}),
        bind(ROLE_BINDINGS, registration, COMMON_REGISTRATION_ROLE, {}),
        bind(ROLE_BINDINGS, work, COMMON_WORK_ROLE, kept),
    )


LONGEST_CERTIFICATE_LIFETIME = timedelta(days=366)
"""The longest lifetime that a hub's signer grants: kube-controller-manager signs for a year by default."""

PREFIX = "retired-cluster-"


class RetiredClusterNames(Struct, frozen=True):
    """Knows which names are leased to deleted clusters, and the subjects of rights under such a name.

    A certificate contains only the name of its cluster, and Kubernetes cannot revoke it. One that was issued to a
    deleted cluster would be valid again as soon as another cluster of its name is accepted, because rights are bound to
    a group that both are in. So a deleted cluster's name stays leased to its UID for as long as such a certificate can
    be valid; a new cluster of that name meanwhile gets rights bound to its one accepted agent, and not to the group.
    """

    ensurer: Ensurer
    clock: Clock
    user_of: Callable[[Object], str] = lambda _: ""  # the user that a cluster is known by; empty: by its certificate

    async def retire(self, cluster: Cluster) -> None:
        """Lease the name to a cluster that is deleted; once for each, because a later expiry is not needed."""
        lease = self._lease(cluster.name)
        if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == cluster.uid:
            return
        wanted = retired_name_lease(cluster, now=self.clock.now())
        await self.ensurer.ensure(LEASES, wanted, ours=lambda obj: retired_name(obj) == cluster.name)

    async def remove_expired(self, name: str) -> timedelta | None:
        """Remove a lease that has ended; return how long one still lasts, None when there is none."""
        until = self.retired_until(name)
        if until is None or until > self.clock.now():
            return None if until is None else until - self.clock.now()
        await self.ensurer.remove(LEASES, retired_name_key(name), ours=lambda obj: retired_name(obj) == name)
        return None

    def retired_until(self, name: str) -> datetime | None:
        """Return until when certificates of a deleted cluster of this name may live; None when there was none."""
        lease = self._lease(name)
        return None if lease is None else lease_end(lease)

    def is_retired(self, name: str) -> bool:
        until = self.retired_until(name)
        return until is not None and self.clock.now() < until

    def subjects(self, cluster: Object) -> list[Object]:
        name = cluster["metadata"]["name"]
        user = self.user_of(cluster)
        if user:  # no certificate of this name may use the rights, neither an earlier cluster's nor its own
            return [_user(user), *(row for row in cluster_subjects(name) if row["name"] != cluster_group(name))]
        if not self.is_retired(name):
            return cluster_subjects(name)
        requests = self.ensurer.reader.by_index(CERTIFICATE_SIGNING_REQUESTS, "cluster", name)
        return choose_subjects(cluster, choose_name_owner(cluster, requests), requests)

    def condition_note(self, cluster: Object) -> str:
        """Return a note about certificates of earlier clusters; empty when there are none."""
        name = cluster["metadata"]["name"]
        until = self.retired_until(name)
        if until is None or not self.is_retired(name):
            return ""
        closed = cluster_group(name) not in {row["name"] for row in self.subjects(cluster)}
        effect = "have no rights on the cluster" if closed else "work until a request of this one is approved"
        return (
            f"; certificates of an earlier cluster of this name may live until {rfc3339(until)}: they {effect} "
            f"(Lease {HUB_NAMESPACE}/{PREFIX}{name} says so)"
        )

    def _lease(self, name: str) -> Object | None:
        found = self.ensurer.reader.get(LEASES, retired_name_key(name))
        return found if found is not None and retired_name(found) == name else None


def choose_subjects(cluster: Object, owner: NameOwner | None, requests: Iterable[Object]) -> list[Object]:
    """Return the subjects under a retired name.

    The accepted agent, once there is one; none while a new request is pending. Without a new request the record of the
    old cluster was created again, and its agent continues with its certificate.
    """
    name = cluster["metadata"]["name"]
    both = cluster_subjects(name)
    others = [row for row in both if row["name"] != cluster_group(name)]  # what no certificate of ours carries
    if owner is not None:
        return [_user(agent_user(name, owner.agent)), *others]
    asked = any(is_pending(csr) for csr, _ in first_requests(requests))
    return others if asked and not is_true(cluster, ConditionType.JOINED) else both


def _user(name: str) -> Object:
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": name}


def retired_name_key(name: str) -> ObjectKey:
    return ObjectKey(HUB_NAMESPACE, PREFIX + name)


def retired_name_lease(cluster: Cluster, *, now: datetime) -> Object:
    return LEASES.manifest(
        retired_name_key(cluster.name),
        metadata={"labels": {Label.CLUSTER_NAME: cluster.name}},
        spec={
            "holderIdentity": cluster.uid,
            "acquireTime": rfc3339_micro(now),
            "renewTime": rfc3339_micro(now),
            "leaseDurationSeconds": int(LONGEST_CERTIFICATE_LIFETIME.total_seconds()),
        },
    )


def retired_name(lease: Object) -> str:
    """Return whose name a lease is about; empty for every other lease."""
    name = labels_of(lease).get(Label.CLUSTER_NAME, "")
    return name if name and ObjectKey.of(lease) == retired_name_key(name) else ""


def lease_end(lease: Object) -> datetime | None:
    spec = mapping_at(lease, "spec")
    since = parse_rfc3339(str(spec.get("acquireTime") or ""))
    return None if since is None else since + (parse_seconds(spec.get("leaseDurationSeconds")) or timedelta(0))


def cluster_from_label(obj: Object) -> Iterable[ObjectKey]:
    name = labels_of(obj).get(Label.CLUSTER_NAME)
    return [ObjectKey.cluster(name)] if name else []


def clusters_with_retired_name(lease: Object) -> list[ObjectKey]:
    name = retired_name(lease)
    return [ObjectKey.cluster(name)] if name else []


class HubParts(Struct, frozen=True):
    """What the hub's reconcilers are made of."""

    cache: Cache
    client: Client
    events: EventRecorder
    clock: Clock
    drivers: HubDrivers
    left_cluster_retention: timedelta  # how long clusters that left are kept

    @property
    def ensurer(self) -> Ensurer:
        return Ensurer(self.cache, self.client)

    @property
    def retired_cluster_names(self) -> RetiredClusterNames:
        return RetiredClusterNames(self.ensurer, self.clock, self.drivers.catalog.user_of)

    @property
    def status(self) -> StatusWriter:
        return StatusWriter(self.client, self.clock, self.cache)
