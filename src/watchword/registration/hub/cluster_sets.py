"""Maintains the `default` and `global` cluster sets, and reports empty sets and valid bindings."""

from collections.abc import Mapping

from msgspec import Struct

from watchword.api.cluster import is_member
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from watchword.registration.hub.cluster_rbac import HubParts
from watchword.runtime.reconcile import Done, Outcome, Reader

DEFAULT_SET = "default"
GLOBAL_SET = "global"

BUILT_IN_SETS: Mapping[str, Object] = {
    DEFAULT_SET: {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
    GLOBAL_SET: {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
}
"""The sets that always exist: every cluster without a set of its own, and every cluster."""


class ClusterSetReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterSet; triggered by it and by every ManagedCluster in it."""

    hub: HubParts

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTER_SETS, key)
        if is_maintained(key.name, found):
            wanted = MANAGED_CLUSTER_SETS.manifest(key, spec=BUILT_IN_SETS[key.name])
            found = await self.hub.ensurer.ensure(MANAGED_CLUSTER_SETS, wanted, ours=lambda _: True)
        if found is None or is_deleting(found):
            return Done()
        empty = not any(is_member(found, labels) for labels in self.hub.cache.labels(MANAGED_CLUSTERS))
        await self.hub.status.set_condition(MANAGED_CLUSTER_SETS, found, decide_empty_condition(empty=empty))
        return Done()


def is_maintained(name: str, found: Object | None) -> bool:
    """Whether the hub restores this set; an annotation lets its owner opt out."""
    if name not in BUILT_IN_SETS:
        return False
    return found is None or (
        not is_deleting(found) and annotations_of(found).get(Annotation.SET_AUTO_UPDATE) != "false"
    )


def decide_empty_condition(*, empty: bool) -> Condition:
    """Return whether a set selects anything; not how much, or every new cluster would be a write."""
    if empty:
        return Condition.true(ConditionType.SET_EMPTY, "NoClusterMatched", "no cluster is selected")
    return Condition.false(ConditionType.SET_EMPTY, "ClustersSelected", "clusters are selected")


def sets_affected_by(reader: Reader, cluster: Object) -> list[ObjectKey]:
    """Return the sets that a change of this cluster can matter to: it left, or it is the first."""
    current = reader.get(MANAGED_CLUSTERS, ObjectKey.of(cluster))
    known = reader.list(MANAGED_CLUSTER_SETS)
    missing = BUILT_IN_SETS.keys() - {found["metadata"]["name"] for found in known}
    keys = [ObjectKey.cluster(name) for name in sorted(missing)]
    for found in known:
        before = is_member(found, labels_of(cluster))
        now = current is not None and is_member(found, labels_of(current))
        said = find_condition(found, ConditionType.SET_EMPTY)
        if (before and not now) or (now and (said is None or said.status != "False")):
            keys.append(ObjectKey.of(found))
    return keys


class ClusterSetBindingReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterSetBinding; triggered by it and by its set."""

    hub: HubParts

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTER_SET_BINDINGS, key)
        if found is None or is_deleting(found):
            return Done()
        name = str((found.get("spec") or {}).get("clusterSet") or "")
        present = self.hub.cache.get(MANAGED_CLUSTER_SETS, ObjectKey.cluster(name))
        condition = decide_bound_condition(key.name, name, exists=present is not None and not is_deleting(present))
        await self.hub.status.set_condition(MANAGED_CLUSTER_SET_BINDINGS, found, condition)
        return Done()


def decide_bound_condition(binding: str, cluster_set: str, *, exists: bool) -> Condition:
    if binding != cluster_set:
        message = f"the binding is named {binding!r} but names the set {cluster_set!r}: give it the name of its set"
        return Condition.false(ConditionType.SET_BOUND, "NameMismatch", message)
    if not exists:
        return Condition.false(ConditionType.SET_BOUND, "ClusterSetNotFound", f"there is no set {cluster_set!r}")
    return Condition.true(ConditionType.SET_BOUND, "ClusterSetBound", "the set can be used from this namespace")
