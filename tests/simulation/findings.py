"""What `watchword status --check` says of a simulated hub: all that is wrong, and nothing once its cause is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

from msgspec.structs import replace
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.held_credentials import ADDON
from tests.simulation.pillar import HEALS_WITHIN, Pillar
from tests.simulation.planes import StoreReader
from tests.simulation.violations import Violations

from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, Resource, labels_of
from watchword.api.selectors import parse_field_selector, parse_label_selector
from watchword.health.facts import SOURCES, HubFacts, facts_by_source
from watchword.health.finding import Finding, urgent
from watchword.health.hub_rules import decide_hub_findings
from watchword.runtime.informer import WatchScope

NOT_PUBLISHED, NO_LEADER = "NotPublished", "NoLeader"
"""A simulated hub publishes no cluster-info, and one without a second replica elects no leader."""


@dataclass
class FindingChecker:
    """Compares findings with what is wrong; reads the store, so that the check disturbs no program."""

    fleet: SimulatedFleet
    pillars: Sequence[Pillar]
    violations: Violations
    _since: dict[tuple[str, str], timedelta] = field(default_factory=dict)  # reason, what about → when first seen

    def look(self) -> None:
        """Look whether everything that is wrong is found, and whether each finding is gone in time."""
        urgent_now = find_urgent(self.fleet.stored, self.fleet.now)
        findings = [one for one in urgent_now if one.reason != NO_LEADER or self.fleet.team.replicas > 1]
        for pillar in self.pillars:
            for what, cluster, reasons in pillar.waiting():
                if not any(one.cluster == cluster and one.reason.startswith(reasons) for one in findings):
                    self.violations.add(f"{cluster}: {what}, and no finding says so", cluster)
        seen = {(finding.reason, finding.about or finding.sentence): finding for finding in findings}
        self._since = {key: self._since.get(key, self.fleet.elapsed) for key in seen}
        for key, finding in seen.items():
            if self._is_late(finding, self._since[key]):
                self.violations.add(f"a finding stays: {finding.reason}, {finding.line}", finding.cluster)

    def _is_late(self, finding: Finding, since: timedelta) -> bool:
        """Whether a finding is older than the last incident by more than an agent needs to report again."""
        bound = self.fleet.elapsed - self.fleet.settings.lease - HEALS_WITHIN
        standing = self.fleet.standing
        concerned = [standing[finding.cluster]] if finding.cluster in standing else standing.values()
        return since <= bound and all(each.is_untouched(since=bound) for each in concerned)


def read_facts(stored: StoreReader) -> HubFacts:
    """Return what the commands would read of a hub."""
    facts = facts_by_source({name: _select(stored, *where) for name, where in SOURCES.items()})
    return replace(facts, accounts=[obj for kind in ACCOUNT_KINDS for obj in stored.list(kind)])


def find_urgent(stored: StoreReader, now: datetime) -> list[Finding]:
    """Return the findings that need attention."""
    found = (finding for _, finding in urgent(decide_hub_findings(read_facts(stored), now=now)))
    return [finding for finding in found if not _is_expected(finding)]


def _is_expected(finding: Finding) -> bool:
    """Whether a finding is true of every simulated hub: the add-on has no agent that would renew a lease."""
    is_addon = finding.reason == "AddOnUnknown" and finding.about.startswith(f"add-on {ADDON} ")
    return is_addon or finding.reason == NOT_PUBLISHED


def _select(stored: StoreReader, resource: Resource, scope: WatchScope) -> list[Object]:
    labels, fields = _selectors(scope)
    return [
        obj
        for obj in stored.list(resource, scope.namespace)
        if labels.matches(labels_of(obj)) and all(_value(obj, each.path) == each.value for each in fields)
    ]


_selectors = cache(lambda scope: (parse_label_selector(scope.labels), parse_field_selector(scope.fields)))


def _value(obj: Object, path: str) -> str:
    for name in path.split("."):
        obj = obj.get(name) or {}
    return str(obj)
