"""The hub's controllers for clusters, as data."""

from collections.abc import Callable, Iterable
from functools import partial
from heapq import nsmallest

from msgspec import Struct, field

from watchword.api import resources
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.credentials.certificates.requests import is_pending, requester_of, without_issued_certificate
from watchword.kube.client import Client
from watchword.registration.hub import cluster_acceptance, cluster_removal, cluster_sets
from watchword.registration.hub.cluster_lease import ClusterLeaseReconciler, ClusterTaintReconciler
from watchword.registration.hub.cluster_rbac import HubParts, cluster_from_label, clusters_with_retired_name
from watchword.registration.hub.credential_reports import RequestEvents
from watchword.runtime.cache import Cache
from watchword.runtime.ensure import delete_object
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Done, Observer, Outcome, Reader, Reconciler, Trigger

MAX_PENDING_REQUESTS = 1000  # of one requester: clusters that wait for acceptance may share a bootstrap token
REQUESTER_INDEX = "requester"


def request_budget_controller(
    cache: Cache, client: Client, events: EventRecorder, *, most: int = MAX_PENDING_REQUESTS
) -> ControllerSpec:
    cache.index(
        CERTIFICATE_SIGNING_REQUESTS, REQUESTER_INDEX, lambda csr: [requester_of(csr).user] if is_pending(csr) else []
    )
    budget = RequestBudgetReconciler(cache, client, events, most)
    return ControllerSpec("request-budget", CERTIFICATE_SIGNING_REQUESTS, budget, workers=2, concerns=is_pending)


class _Budget(Struct, frozen=True):
    """What a requester with too many undecided requests keeps: the oldest of them."""

    oldest: Object
    newest: tuple[str, str]


class RequestBudgetReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest: deletes an undecided one that its requester has too many of."""

    cache: Cache
    client: Client
    events: EventRecorder
    most: int
    kept: dict[str, _Budget] = field(default_factory=dict)  # of requesters above the budget: measured once for a flood

    async def reconcile(self, key: ObjectKey) -> Outcome:
        csr = self.cache.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_pending(csr):
            return Done()
        user = requester_of(csr).user
        if self.cache.index_count(CERTIFICATE_SIGNING_REQUESTS, REQUESTER_INDEX, user) <= self.most:
            self.kept.pop(user, None)
            return Done()
        kept = self.kept.get(user) or self.kept.setdefault(user, self._measure(user))
        if _age(csr) <= kept.newest:
            return Done()
        await delete_object(self.client, CERTIFICATE_SIGNING_REQUESTS, csr)
        # About the oldest request, so that a flood is one event that counts.
        note = f"{user} has {self.most} undecided certificate requests: further ones are deleted"
        self.events.warning(kept.oldest, "TooManyRequests", note)
        return Done()

    def _measure(self, user: str) -> _Budget:
        pending = self.cache.by_index(CERTIFICATE_SIGNING_REQUESTS, REQUESTER_INDEX, user)
        oldest = nsmallest(self.most, pending, key=_age)
        return _Budget(oldest[0], _age(oldest[-1]))


def _age(csr: Object) -> tuple[str, str]:
    return csr["metadata"]["creationTimestamp"], csr["metadata"]["name"]


OF_CLUSTERS = WatchScope(labels=Label.CLUSTER_NAME)
"""Only what was made for a cluster; everything else on the hub is not even read."""

ACCESS = (resources.NAMESPACES, resources.CLUSTER_ROLES, resources.CLUSTER_ROLE_BINDINGS, resources.ROLE_BINDINGS)
MADE_FOR_CLUSTERS = (*ACCESS, resources.LEASES, resources.CERTIFICATE_SIGNING_REQUESTS)
WHOLE_KINDS = (
    resources.MANAGED_CLUSTERS,
    resources.MANAGED_CLUSTER_SETS,
    resources.MANAGED_CLUSTER_SET_BINDINGS,
    resources.MANAGED_CLUSTER_ADDONS,
    resources.MANIFEST_WORKS,
)


def register_informers(cache: Cache) -> None:
    cache.informer(resources.CERTIFICATE_SIGNING_REQUESTS, OF_CLUSTERS, project=without_issued_certificate)
    for resource in MADE_FOR_CLUSTERS:
        cache.informer(resource, OF_CLUSTERS)
    for resource in WHOLE_KINDS:
        cache.informer(resource)
    cache.index(resources.CERTIFICATE_SIGNING_REQUESTS, "cluster", _index_cluster_requests)


def controllers(parts: HubParts) -> list[ControllerSpec | Observer]:
    """Return every controller: its root kind, what else triggers it, its reconciler."""
    return [
        *_cluster_controllers(parts),
        *_set_controllers(parts),
        Observer(resources.CERTIFICATE_SIGNING_REQUESTS, RequestEvents(parts.events, parts.clock).observe),
        request_budget_controller(parts.cache, parts.client, parts.events),
        *parts.drivers.controllers(),
    ]


def _cluster_controllers(parts: HubParts) -> Iterable[ControllerSpec]:
    access = (
        *(Trigger(resource, cluster_from_label) for resource in ACCESS),
        Trigger(resources.LEASES, clusters_with_retired_name),
        Trigger(resources.CERTIFICATE_SIGNING_REQUESTS, lambda obj: _with_retired_name(parts, obj)),
    )
    guard = cluster_acceptance.AcceptanceGuard(parts.client, parts.clock)
    acceptance = cluster_acceptance.ClusterAcceptanceReconciler(parts, guard)
    yield _of_cluster("cluster-acceptance", acceptance, access)
    automatic = cluster_acceptance.ClusterAutoAcceptanceReconciler(parts)
    requests = Trigger(resources.CERTIFICATE_SIGNING_REQUESTS, lambda obj: _undecided(parts.cache, obj))
    yield _of_cluster("cluster-auto-acceptance", automatic, (requests,), concerns=cluster_acceptance.is_undecided)
    removal = cluster_removal.ClusterRemovalReconciler(parts)
    content = tuple(
        Trigger(resource, partial(cluster_removal.clusters_being_removed, parts.cache))
        for resource in cluster_acceptance.CONTENT
    )
    yield _of_cluster("cluster-removal", removal, (*content, *parts.drivers.removal_triggers), concerns=is_deleting)
    cleanup = cluster_removal.ClusterCleanupReconciler(parts)
    yield _of_cluster("cluster-cleanup", cleanup, concerns=cluster_removal.may_have_left)
    lease = ClusterLeaseReconciler(parts)
    yield _of_cluster("cluster-lease", lease, (Trigger(resources.LEASES, lease.clusters_affected_by),))
    taints = ClusterTaintReconciler(parts)
    yield _of_cluster("cluster-taints", taints, concerns=taints.concerns)


def _set_controllers(parts: HubParts) -> Iterable[ControllerSpec]:
    cache, sets = parts.cache, cluster_sets.ClusterSetReconciler(parts)
    changed_cluster = Trigger(resources.MANAGED_CLUSTERS, partial(cluster_sets.sets_affected_by, cache))
    yield ControllerSpec("cluster-sets", resources.MANAGED_CLUSTER_SETS, sets, (changed_cluster,), workers=1)
    bindings = cluster_sets.ClusterSetBindingReconciler(parts)
    changed_set = Trigger(resources.MANAGED_CLUSTER_SETS, partial(_bindings_of, cache))
    yield ControllerSpec(
        "cluster-set-bindings", resources.MANAGED_CLUSTER_SET_BINDINGS, bindings, (changed_set,), workers=2
    )


def _of_cluster(
    name: str,
    reconciler: Reconciler,
    triggers: tuple[Trigger, ...] = (),
    *,
    concerns: Callable[[Object], bool] = lambda _: True,
) -> ControllerSpec:
    return ControllerSpec(name, resources.MANAGED_CLUSTERS, reconciler, triggers, workers=16, concerns=concerns)


def _undecided(reader: Reader, csr: Object) -> Iterable[ObjectKey]:
    """Map a request to its cluster while that is neither accepted nor denied: a later request changes nothing."""
    found = ((key, reader.get(resources.MANAGED_CLUSTERS, key)) for key in cluster_from_label(csr))
    return [key for key, cluster in found if cluster is not None and cluster_acceptance.is_undecided(cluster)]


def _index_cluster_requests(csr: Object) -> list[str]:
    """Return the cluster of a request for its own certificate; what its add-ons request has an index of its own."""
    labels = labels_of(csr)
    return [] if Label.ADDON_NAME in labels else [labels.get(Label.CLUSTER_NAME, "")]


def _with_retired_name(parts: HubParts, csr: Object) -> Iterable[ObjectKey]:
    """Map a request to its cluster where the requester matters for rights: under a retired name."""
    return [key for key in cluster_from_label(csr) if parts.retired_cluster_names.is_retired(key.name)]


def _bindings_of(cache: Cache, cluster_set: Object) -> Iterable[ObjectKey]:
    name = cluster_set["metadata"]["name"]
    keys = map(ObjectKey.of, cache.list(resources.MANAGED_CLUSTER_SET_BINDINGS))
    return [key for key in keys if key.name == name]
