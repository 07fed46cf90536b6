"""Keeps aggregated ClusterRoles equal to the union of the roles they select."""

import contextlib
from collections.abc import Iterable, Mapping

from msgspec import field

from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.resources import CLUSTER_ROLES
from watchword.api.selectors import LabelSelector, SelectorError, parse_structured_selector
from watchword.apiserver.controllers.worker import Controller, Watches


class ClusterRoleAggregationController(Controller[str]):
    """Triggered by every ClusterRole that an aggregated role selects, or selected before."""

    _aggregated: dict[str, list[LabelSelector]] = field(default_factory=dict)
    _labels: dict[str, Mapping[str, str]] = field(default_factory=dict)  # of every role

    def watches(self) -> Watches:
        return {CLUSTER_ROLES: self._role_changed}

    def _role_changed(self, change: str, new: Object) -> None:
        name, labels = new["metadata"]["name"], labels_of(new)
        if change != "DELETED" and selectors_of(new):
            self._aggregated[name] = parsed_selectors(new)
        else:
            self._aggregated.pop(name, None)
        known = self._labels.pop(name, labels)
        if change != "DELETED":
            self._labels[name] = labels
        for each, selectors in self._aggregated.items():
            if each == name or any(selector.matches(labels) or selector.matches(known) for selector in selectors):
                self.worker.enqueue(each)

    async def sync(self, name: str) -> float | None:
        role = self.registry.get(CLUSTER_ROLES, ObjectKey.cluster(name))
        if role is None or not selectors_of(role):
            return None
        wanted = union_of(role, self._selected_by(role))
        if (role.get("rules") or []) != wanted:
            await self.registry.update(CLUSTER_ROLES, {**role, "rules": wanted})
        return None

    def _selected_by(self, role: Object) -> list[Object]:
        """Return the roles that a role selects, of which there are few, without reading the others."""
        selectors = parsed_selectors(role)
        names = [name for name, labels in self._labels.items() if any(each.matches(labels) for each in selectors)]
        found = [self.registry.get(CLUSTER_ROLES, ObjectKey.cluster(name)) for name in names]
        return [each for each in found if each is not None]


def union_of(role: Object, roles: Iterable[Object]) -> list[Object]:
    """Return the distinct rules of all other roles that the role selects, selector by selector, by name."""
    ordered = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    rules: list[Object] = []
    for selector in parsed_selectors(role):
        for each in ordered:
            if each["metadata"]["name"] == role["metadata"]["name"] or not selector.matches(labels_of(each)):
                continue
            rules.extend(rule for rule in each.get("rules") or () if rule not in rules)
    return rules


def selectors_of(role: Object) -> list[Object]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []


def parsed_selectors(role: Object) -> list[LabelSelector]:
    """Return what the role aggregates; a selector that cannot be read selects nothing."""
    parsed: list[LabelSelector] = []
    for structure in selectors_of(role):
        with contextlib.suppress(SelectorError):
            parsed.append(parse_structured_selector(structure))
    return parsed
