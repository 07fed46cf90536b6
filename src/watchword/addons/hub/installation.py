"""Enables an add-on on every cluster that its strategy chooses, and ties each instance to its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from watchword.api.cluster import is_accepted, is_member
from watchword.api.conditions import Condition, is_true
from watchword.api.meta import (
    Object,
    ObjectKey,
    annotations_of,
    is_deleting,
    is_owned_by,
    labels_of,
    owner_reference,
    uid_of,
)
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
)
from watchword.kube.client import Client
from watchword.runtime.cache import Cache
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.informer import Informer, WatchScope
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

DEFINITION = ObjectKey.cluster(PLACEMENT_DECISIONS.group_resource)
BY_PLACEMENT = "placement"
PATIENCE = timedelta(seconds=20)  # for a first response; a refused watch delivers nothing at all
RECHECK_INTERVAL = timedelta(minutes=5)
CLUSTER_SETS, PLACEMENTS = "ClusterSets", "Placements"
FOLLOWED = ConditionType.INSTALL_STRATEGY_FOLLOWED


class AddonInstaller(Struct, frozen=True):
    """Enables, adopts and disables add-ons by the strategies of their kinds."""

    reader: Cache
    client: Client
    strategies: InstallStrategies

    async def install(self, key: ObjectKey, present: Object | None) -> bool:
        """Take the step that is due about an add-on, existing or not; return whether there was one."""
        known = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(key.name))
        step = InstallationStep.NOTHING if known is None else self._step(known, key, present)
        if known is None or step is InstallationStep.NOTHING:
            return False
        if present is None:
            await self.client.create(MANAGED_CLUSTER_ADDONS, instance_manifest(known, key))
        elif step is InstallationStep.ADOPT:
            owners = [*(present["metadata"].get("ownerReferences") or []), owner_reference(known)]
            patch = with_preconditions(present, {"metadata": {"ownerReferences": owners}})
            await self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch)
        else:
            await self.client.delete(MANAGED_CLUSTER_ADDONS, key, uid=uid_of(present))
        return True

    def _step(self, known: Object, key: ObjectKey, present: Object | None) -> InstallationStep:
        needed = is_automatic(known)  # else neither the cluster nor its labels decide anything
        cluster = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace)) if needed else None
        selected = self.strategies.selects(known, cluster, key.namespace)
        return choose_installation_step(known, cluster, present, selected=selected)

    def by_cluster(self, cluster: Object) -> list[ObjectKey]:
        """Map a cluster to the add-ons that must change on it: most changes of clusters do not matter."""
        name = cluster["metadata"]["name"]
        return [key for known in self.strategies.automatic() for key in self._due(known, [name])]

    def by_kind(self, known: Object) -> list[ObjectKey]:
        current = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.of(known))  # not as it was before the change
        return [] if current is None else self._due(current, [key.name for key in self.reader.keys(MANAGED_CLUSTERS)])

    def by_set(self, _: Object) -> list[ObjectKey]:
        """Map a change of a set to everything that is due: sets change rarely, and may select anything."""
        return self.by_type(CLUSTER_SETS)

    def by_decision(self, decision: Object) -> list[ObjectKey]:
        named = placement_of(decision)
        kinds = [
            known
            for known in self.strategies.automatic(PLACEMENTS)
            if any(placement_key(row) == named for row in strategy_of(known).get("placements") or ())
        ]
        return [key for known in kinds for key in self._due(known, clusters_of(decision))]

    def by_type(self, strategy: str) -> list[ObjectKey]:
        return [key for known in self.strategies.automatic(strategy) for key in self.by_kind(known)]

    def _due(self, known: Object, clusters: Iterable[str]) -> list[ObjectKey]:
        keys = [ObjectKey(name, known["metadata"]["name"]) for name in clusters]
        found = [(key, self.reader.get(MANAGED_CLUSTER_ADDONS, key)) for key in keys]
        return [key for key, addon in found if self._step(known, key, addon) is not InstallationStep.NOTHING]


class InstallationStep(Enum):
    """What is to be done about one add-on on one cluster."""

    NOTHING = auto()
    ENABLE = auto()
    ADOPT = auto()  # enabled manually: its kind becomes its owner, so that it is deleted with it
    DISABLE = auto()


def choose_installation_step(
    known: Object, cluster: Object | None, present: Object | None, *, selected: bool | None
) -> InstallationStep:
    """Decide from the add-on's kind, the cluster, what exists, and whether the strategy chooses the cluster.

    Where the strategy does not decide, administrators do. What an administrator enabled is not removed.
    """
    if is_deleting(known):
        return InstallationStep.NOTHING  # the garbage collector removes what belonged to it
    wanted = selected and cluster is not None and not is_deleting(cluster) and is_accepted(cluster)
    if present is None:
        enabled = wanted and cluster is not None and not is_opted_out(cluster)
        return InstallationStep.ENABLE if enabled else InstallationStep.NOTHING
    if is_deleting(present):
        return InstallationStep.NOTHING
    if selected is not None and not wanted and Annotation.ADDON_INSTALLED_BY in annotations_of(present):
        return InstallationStep.DISABLE
    return InstallationStep.NOTHING if is_owned_by(present, uid_of(known)) else InstallationStep.ADOPT


def is_opted_out(cluster: Object) -> bool:
    """Whether a cluster gets only the add-ons that an administrator enables on it."""
    return annotations_of(cluster).get(Annotation.DISABLE_AUTOMATIC_INSTALLATION, "").lower() == "true"


def instance_manifest(known: Object, key: ObjectKey) -> Object:
    metadata: Object = {
        "ownerReferences": [owner_reference(known)],
        "annotations": {Annotation.ADDON_INSTALLED_BY: str(strategy_of(known).get("type"))},
    }
    return MANAGED_CLUSTER_ADDONS.manifest(key, metadata=metadata, spec={})


class InstallStrategyReconciler(Struct, frozen=True):
    """Reconciles ClusterManagementAddOn; triggered by it, by cluster sets, and by whether decisions can be followed."""

    strategies: InstallStrategies
    status: StatusWriter

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Return the condition whether the strategy can be followed; None for the manual strategy."""
        known = self.strategies.reader.get(CLUSTER_MANAGEMENT_ADDONS, key)
        if known is None or is_deleting(known):
            return Done()
        said = self._decide_condition(known)
        change = StatusChange(conditions=(said,)) if said is not None else StatusChange(without=(FOLLOWED,))
        await self.status.write(CLUSTER_MANAGEMENT_ADDONS, known, change)
        return Done()

    def _decide_condition(self, known: Object) -> Condition | None:
        match strategy_of(known).get("type"):
            case "ClusterSets":
                return decide_cluster_sets_condition(set_names(known), self.strategies.sets(known))
            case "Placements":
                placements = self.strategies.placements
                return decide_placements_condition(served=placements.served, followed=placements.followed)
            case _:
                return None

    def by_type(self, strategy: str) -> list[ObjectKey]:
        return [ObjectKey.of(known) for known in self.strategies.automatic(strategy)]


def decide_cluster_sets_condition(named: Sequence[str], found: Sequence[Object]) -> Condition:
    missing = sorted(set(named) - {obj["metadata"]["name"] for obj in found})
    if missing:
        message = f"there is no ManagedClusterSet {', '.join(missing)}: create it, or name another"
        return Condition.false(FOLLOWED, "ClusterSetNotFound", message)
    return Condition.true(FOLLOWED, "ClusterSetsFollowed", "the add-on is installed on every cluster of the sets")


def decide_placements_condition(*, served: bool, followed: bool) -> Condition:
    if followed:
        message = "the add-on is installed on every cluster that the placements choose"
        return Condition.true(FOLLOWED, "PlacementsFollowed", message)
    if served:
        message = "the hub cannot read placementdecisions: grant its ServiceAccount list and watch"
        return Condition.false(FOLLOWED, "PlacementsNotReadable", message)
    message = "this hub serves no PlacementDecision: install a placement controller, or use ClusterSets"
    return Condition.false(FOLLOWED, "PlacementsNotServed", message)


class InstallStrategies(Struct, frozen=True):
    """Looks up what a strategy means for a cluster."""

    reader: Reader
    placements: Placements

    def selects(self, known: Object, cluster: Object | None, name: str) -> bool | None:
        """Return whether the strategy chooses a cluster; None when the strategy is manual, or when that is unknown."""
        strategy = strategy_of(known)
        match strategy.get("type"):
            case "ClusterSets":
                return cluster is not None and any(is_member(each, labels_of(cluster)) for each in self.sets(known))
            case "Placements":
                chosen = self.placements.chosen(strategy.get("placements") or ())
                return None if chosen is None else name in chosen
            case _:
                return None

    def sets(self, known: Object) -> list[Object]:
        found = (self.reader.get(MANAGED_CLUSTER_SETS, ObjectKey.cluster(name)) for name in set_names(known))
        return [obj for obj in found if obj is not None]

    def automatic(self, type_: str = "") -> Iterable[Object]:
        for known in self.reader.list(CLUSTER_MANAGEMENT_ADDONS):
            if is_automatic(known) and type_ in ("", strategy_of(known).get("type")):
                yield known


def strategy_of(known: Object) -> Mapping[str, Any]:
    """Return the install strategy of an add-on's kind; manual by default."""
    strategy: Mapping[str, Any] = (known.get("spec") or {}).get("installStrategy") or {}
    return strategy


def is_automatic(known: Object) -> bool:
    return strategy_of(known).get("type") in (CLUSTER_SETS, PLACEMENTS)


def set_names(known: Object) -> list[str]:
    return [str(row.get("name")) for row in strategy_of(known).get("clusterSets") or ()]


class PlacementDecisionReconciler(Struct, frozen=True):
    """Reconciles the definition of PlacementDecision: while it is served, decisions are followed."""

    placements: Placements
    on_decision: Callable[[Object], None]
    on_change: Callable[[], None]  # called when decisions become known, or unknown

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Watch decisions while they are served; a hub that may not read them continues without."""
        if key != DEFINITION:
            return Done()
        outcome: Outcome = Done()
        try:
            if self.placements.served:
                async with asyncio.timeout(PATIENCE.total_seconds()):
                    await self.placements.start_watching(self.on_decision)
            else:
                self.placements.stop_watching()
        except TimeoutError:
            self.placements.stop_watching()
            outcome = RetryAfter(RECHECK_INTERVAL)
        self.on_change()
        return outcome


class Placements:
    """Reads decisions; while they are not served, no cluster is chosen or removed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._informer: Informer | None = None
        self._known: dict[str, frozenset[str]] = {}  # placement → clusters
        cache.informer(CUSTOM_RESOURCE_DEFINITIONS, WatchScope(fields=f"metadata.name={DEFINITION.name}"))

    @property
    def served(self) -> bool:
        found = self._cache.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        return found is not None and not is_deleting(found) and is_true(found, "Established")

    @property
    def followed(self) -> bool:
        return self._informer is not None and self._informer.synced and self.served

    def chosen(self, placements: Iterable[Mapping[str, Any]]) -> frozenset[str] | None:
        """Return the clusters that any of the placements chose; None while that cannot be known."""
        if not self.followed:
            return None
        return frozenset[str]().union(*(self._chosen_by(placement_key(row)) for row in placements))

    def _chosen_by(self, placement: str) -> frozenset[str]:
        """Return one placement's clusters; cached until a decision changes, because every cluster's change needs it."""
        if placement not in self._known:
            found = self._cache.by_index(PLACEMENT_DECISIONS, BY_PLACEMENT, placement)
            self._known[placement] = frozenset(name for decision in found for name in clusters_of(decision))
        return self._known[placement]

    async def start_watching(self, on_decision: Callable[[Object], None]) -> None:
        """Watch decisions from now on, and return once all are known; a changed one is reported before and after."""
        if self._informer is None:
            self._informer = self._cache.informer(PLACEMENT_DECISIONS)
            self._cache.index(PLACEMENT_DECISIONS, BY_PLACEMENT, lambda obj: filter(None, [placement_of(obj)]))
            self._cache.add_handler(PLACEMENT_DECISIONS, lambda delta: self._changed(delta, on_decision))
        await self._informer.sync()

    def stop_watching(self) -> None:
        if self._informer is not None:
            self._cache.drop(self._informer)
        self._informer = None
        self._known.clear()

    def _changed(self, delta: Delta, on_decision: Callable[[Object], None]) -> None:
        self._known.clear()
        for decision in (delta.old, delta.new):
            if decision is not None:
                on_decision(decision)


def placement_key(row: Mapping[str, Any]) -> str:
    return f"{row.get('namespace')}/{row.get('name')}"


def placement_of(decision: Object) -> str:
    """Return namespace and name of a decision's placement, empty when it names none."""
    name = labels_of(decision).get(Label.PLACEMENT, "")
    return f"{decision['metadata']['namespace']}/{name}" if name else ""


def clusters_of(decision: Object) -> list[str]:
    rows = (decision.get("status") or {}).get("decisions") or ()
    return [str(row["clusterName"]) for row in rows if row.get("clusterName")]
