"""Which clusters placements have chosen, on a hub that serves placements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of
from watchword.api.names import Label
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, PLACEMENT_DECISIONS
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Informer, WatchScope
from watchword.runtime.raw_objects import Delta
from watchword.runtime.reconcile import Done, Outcome, RetryAfter

DEFINITION = ObjectKey.cluster(PLACEMENT_DECISIONS.group_resource)
BY_PLACEMENT = "placement"
PATIENCE = timedelta(seconds=20)  # for a first response; a refused watch delivers nothing at all
RECHECK_INTERVAL = timedelta(minutes=5)


class Placements:
    """Reads decisions; while they are not served, no cluster is chosen or removed."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._informer: Informer | None = None
        self._known: dict[str, frozenset[str]] = {}  # placement → clusters
        cache.informer(CUSTOM_RESOURCE_DEFINITIONS, WatchScope(fields=f"metadata.name={DEFINITION.name}"))

    @property
    def served(self) -> bool:
        """Whether the hub serves decisions at all."""
        found = self._cache.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        return found is not None and not is_deleting(found) and is_true(found, "Established")

    @property
    def followed(self) -> bool:
        """Whether every decision is known at this moment."""
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
        """Follow decisions no longer, and forget them."""
        if self._informer is not None:
            self._cache.drop(self._informer)
        self._informer = None
        self._known.clear()

    def _changed(self, delta: Delta, on_decision: Callable[[Object], None]) -> None:
        self._known.clear()
        for decision in (delta.old, delta.new):
            if decision is not None:
                on_decision(decision)


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


def placement_key(row: Mapping[str, Any]) -> str:
    """Return namespace and name of a placement that a strategy names."""
    return f"{row.get('namespace')}/{row.get('name')}"


def placement_of(decision: Object) -> str:
    """Return namespace and name of a decision's placement, empty when it names none."""
    name = labels_of(decision).get(Label.PLACEMENT, "")
    return f"{decision['metadata']['namespace']}/{name}" if name else ""


def clusters_of(decision: Object) -> list[str]:
    """Return the clusters that a decision names."""
    rows = (decision.get("status") or {}).get("decisions") or ()
    return [str(row["clusterName"]) for row in rows if row.get("clusterName")]
