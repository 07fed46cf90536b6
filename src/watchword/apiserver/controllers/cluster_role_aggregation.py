"""Keeps aggregated ClusterRoles equal to the union of the roles they select."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.resources import CLUSTER_ROLES
from watchword.api.selectors import SelectorError, parse_structured_selector
from watchword.apiserver.controllers.controller import Watches
from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.model import Registry


@dataclass
class ClusterRoleAggregationController:
    """Triggered by every ClusterRole; updates all that aggregate."""

    registry: Registry
    _aggregated: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.worker: Worker[str] = Worker("cluster role aggregation", self.sync)

    def watches(self) -> Watches:
        """Subscribe to ClusterRoles."""
        return {CLUSTER_ROLES: self._role_changed}

    def _role_changed(self, change: str, new: Object, old: Object | None) -> None:
        name = new["metadata"]["name"]
        if change != "DELETED" and selectors_of(new):
            self._aggregated.add(name)
        else:
            self._aggregated.discard(name)
        if change == "MODIFIED" and old is not None and _same_contribution(new, old):
            return
        for each in self._aggregated:
            self.worker.enqueue(each)

    async def sync(self, name: str) -> float | None:
        """Write the union into one aggregated role, when it differs."""
        role = self.registry.get(CLUSTER_ROLES, ObjectKey.cluster(name))
        if role is None or not selectors_of(role):
            return None
        wanted = union_of(role, self.registry.list(CLUSTER_ROLES))
        if (role.get("rules") or []) != wanted:
            await self.registry.update(CLUSTER_ROLES, {**role, "rules": wanted})
        return None


def union_of(role: Object, roles: Iterable[Object]) -> list[Object]:
    """Return the distinct rules of all other roles that the role selects, selector by selector, by name."""
    ordered = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    rules: list[Object] = []
    for structure in selectors_of(role):
        try:
            selector = parse_structured_selector(structure)
        except SelectorError:
            continue  # one that cannot be read selects nothing
        for each in ordered:
            if each["metadata"]["name"] == role["metadata"]["name"] or not selector.matches(labels_of(each)):
                continue
            rules.extend(rule for rule in each.get("rules") or () if rule not in rules)
    return rules


def selectors_of(role: Object) -> list[Object]:
    """Return what the role aggregates."""
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []


def _same_contribution(new: Object, old: Object) -> bool:
    return (
        labels_of(new) == labels_of(old)
        and (new.get("rules") or []) == (old.get("rules") or [])
        and selectors_of(new) == selectors_of(old)
    )
