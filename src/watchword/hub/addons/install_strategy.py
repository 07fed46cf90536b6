"""On which clusters an add-on's kind wants it enabled, and whether that can be known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from watchword.api.cluster_sets import is_member
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import ConditionType
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_SETS
from watchword.hub.addons.placements import Placements
from watchword.runtime.reconcile import Done, Outcome, Reader
from watchword.runtime.status import StatusChange, StatusWriter

CLUSTER_SETS, PLACEMENTS = "ClusterSets", "Placements"
FOLLOWED = ConditionType.INSTALL_STRATEGY_FOLLOWED


def strategy_of(known: Object) -> Mapping[str, Any]:
    """Return the install strategy of an add-on's kind; manual by default."""
    strategy: Mapping[str, Any] = (known.get("spec") or {}).get("installStrategy") or {}
    return strategy


def is_automatic(known: Object) -> bool:
    """Whether the hub enables the add-on by itself."""
    return strategy_of(known).get("type") in (CLUSTER_SETS, PLACEMENTS)


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
        """Return the sets named that exist."""
        found = (self.reader.get(MANAGED_CLUSTER_SETS, ObjectKey.cluster(name)) for name in set_names(known))
        return [obj for obj in found if obj is not None]

    def automatic(self, type_: str = "") -> Iterable[Object]:
        """Return the kinds that are installed by themselves, by one strategy or by any."""
        for known in self.reader.list(CLUSTER_MANAGEMENT_ADDONS):
            if is_automatic(known) and type_ in ("", strategy_of(known).get("type")):
                yield known


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

    def by_set(self, _: Object) -> list[ObjectKey]:
        """Map a change of any set to the kinds that are installed by sets."""
        return [ObjectKey.of(known) for known in self.strategies.automatic(CLUSTER_SETS)]

    def by_placements(self) -> list[ObjectKey]:
        """Return the kinds that are installed by placements."""
        return [ObjectKey.of(known) for known in self.strategies.automatic(PLACEMENTS)]


def set_names(known: Object) -> list[str]:
    """Return the sets that a strategy names."""
    return [str(row.get("name")) for row in strategy_of(known).get("clusterSets") or ()]


def decide_cluster_sets_condition(named: Sequence[str], found: Sequence[Object]) -> Condition:
    """Return whether all the sets named are there."""
    missing = sorted(set(named) - {obj["metadata"]["name"] for obj in found})
    if missing:
        message = f"there is no ManagedClusterSet {', '.join(missing)}: create it, or name another"
        return Condition.false(FOLLOWED, "ClusterSetNotFound", message)
    return Condition.true(FOLLOWED, "ClusterSetsFollowed", "the add-on comes and goes with the sets' clusters")


def decide_placements_condition(*, served: bool, followed: bool) -> Condition:
    """Return whether placements are decided here, and whether the hub may read the decisions."""
    if followed:
        return Condition.true(FOLLOWED, "PlacementsFollowed", "the add-on comes and goes with the decisions")
    if served:
        message = "the hub does not get to see decisions: may it list and watch placementdecisions?"
        return Condition.false(FOLLOWED, "PlacementsNotReadable", message)
    message = "this hub serves no PlacementDecision: install what decides about placements, or use ClusterSets"
    return Condition.false(FOLLOWED, "PlacementsNotServed", message)
