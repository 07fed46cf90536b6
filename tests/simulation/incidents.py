"""The faults of a simulated life: which, when, to whom and for how long, drawn from the seed alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from random import Random

from msgspec import Struct
from tests.simulation.history import stamp
from tests.simulation.settings import DAY, HOUR, MINUTE, SimulationSettings


class IncidentKind(StrEnum):
    """Everything that can happen to a fleet."""

    AGENT_CRASH = "the agent is killed after some write"
    HUB_CRASH = "the leading hub is killed after some write"
    HUB_OUTAGE = "no hub controller runs"
    API_OUTAGE = "the hub's API server is down"
    PARTITION = "the cluster cannot reach the hub"
    HUB_PARTITION = "the leading hub cannot reach its API server"
    REQUEST_FAULTS = "requests fail, hang and get lost"
    WATCH_FAULTS = "watch events are lost, late and repeated"
    STALE_AGENT = "the agent's watches fall silent"
    STALE_HUB = "the leading hub's watches fall silent"
    SKEW = "the cluster's clock is wrong"
    AUTHORITY = "the hub's certificate authority changes"
    CREDENTIAL_LOST = "the cluster's credential is deleted"
    CREDENTIAL_DAMAGED = "the cluster's credential is overwritten"
    ADDON_CREDENTIAL_LOST = "the add-on's credential is deleted"
    ACCOUNT_LOST = "the add-on's ServiceAccount is deleted"
    ADDON_REMOVED = "the add-on is removed and comes back"
    DENIAL = "the cluster is denied, and accepted again"
    REMOVAL = "the cluster is deleted, and created again"
    OBJECT_DELETED = "something the hub made for the cluster is deleted"
    ROTATION = "an early renewal is requested"


EXPIRY_ALLOWED = frozenset(
    {
        IncidentKind.HUB_OUTAGE,
        IncidentKind.API_OUTAGE,
        IncidentKind.PARTITION,
        IncidentKind.HUB_PARTITION,
        IncidentKind.REQUEST_FAULTS,
        IncidentKind.WATCH_FAULTS,
        IncidentKind.STALE_AGENT,
        IncidentKind.STALE_HUB,
        IncidentKind.CREDENTIAL_LOST,
        IncidentKind.CREDENTIAL_DAMAGED,
        IncidentKind.DENIAL,
        IncidentKind.REMOVAL,
    }
)
"""While one of these lasts a credential may expire; through everything else it has to be renewed in time."""


class Incident(Struct, frozen=True):
    """One thing that happens."""

    at: timedelta
    kind: IncidentKind
    target: str  # a cluster; empty for what concerns everybody
    lasts: timedelta
    amount: float  # between 0 and 1, read as the kind needs it

    @property
    def when(self) -> str:
        """When it begins, as traces say it."""
        return stamp(self.at.total_seconds())

    def __str__(self) -> str:
        whom = self.target or "everybody"
        return f"{self.kind.value}: {whom}, for {timedelta(seconds=round(self.lasts.total_seconds()))}"


class IncidentWeight(Struct, frozen=True):
    """How often a kind happens beside the others, to whom, and how long it may last."""

    weight: float
    shortest: timedelta
    longest: timedelta
    fleet_wide: bool = False


INCIDENT_WEIGHTS: dict[IncidentKind, IncidentWeight] = {
    IncidentKind.AGENT_CRASH: IncidentWeight(6, DAY, DAY),
    IncidentKind.HUB_CRASH: IncidentWeight(4, DAY, DAY, fleet_wide=True),
    IncidentKind.HUB_OUTAGE: IncidentWeight(1, MINUTE, 12 * HOUR, fleet_wide=True),
    IncidentKind.API_OUTAGE: IncidentWeight(1, MINUTE, 6 * HOUR, fleet_wide=True),
    IncidentKind.PARTITION: IncidentWeight(4, MINUTE, 10 * DAY),
    IncidentKind.HUB_PARTITION: IncidentWeight(1, MINUTE, 12 * HOUR, fleet_wide=True),
    IncidentKind.REQUEST_FAULTS: IncidentWeight(2, MINUTE, 6 * HOUR),
    IncidentKind.WATCH_FAULTS: IncidentWeight(2, MINUTE, 12 * HOUR),
    IncidentKind.STALE_AGENT: IncidentWeight(2, MINUTE, 12 * HOUR),
    IncidentKind.STALE_HUB: IncidentWeight(1, MINUTE, 12 * HOUR, fleet_wide=True),
    IncidentKind.SKEW: IncidentWeight(2, HOUR, 3 * DAY),
    IncidentKind.AUTHORITY: IncidentWeight(1, 10 * DAY, 10 * DAY, fleet_wide=True),
    IncidentKind.CREDENTIAL_LOST: IncidentWeight(1, DAY, DAY),
    IncidentKind.CREDENTIAL_DAMAGED: IncidentWeight(1, DAY, DAY),
    IncidentKind.ADDON_CREDENTIAL_LOST: IncidentWeight(2, HOUR, HOUR),
    IncidentKind.ACCOUNT_LOST: IncidentWeight(2, HOUR, HOUR),
    IncidentKind.ADDON_REMOVED: IncidentWeight(1, MINUTE, DAY),
    IncidentKind.DENIAL: IncidentWeight(2, MINUTE, 4 * DAY),
    IncidentKind.REMOVAL: IncidentWeight(1.5, MINUTE, 2 * DAY),
    IncidentKind.OBJECT_DELETED: IncidentWeight(2, HOUR, HOUR),
    IncidentKind.ROTATION: IncidentWeight(1, HOUR, HOUR),
}


def draw_incidents(settings: SimulationSettings, clusters: Sequence[str]) -> list[Incident]:
    """Return the whole schedule; the last fault ends before the quiet end of the run begins."""
    random = Random(f"incidents of {settings.seed}")
    count = round(settings.incidents_per_day * settings.faults_end / DAY)
    kinds, rows = list(INCIDENT_WEIGHTS), list(INCIDENT_WEIGHTS.values())
    chosen = random.choices(kinds, weights=[row.weight for row in rows], k=count)
    drawn = [_draw(kind, settings, clusters, random) for kind in chosen]
    return sorted(drawn, key=lambda incident: incident.at)


def _draw(kind: IncidentKind, settings: SimulationSettings, clusters: Sequence[str], random: Random) -> Incident:
    row = INCIDENT_WEIGHTS[kind]
    target = "" if row.fleet_wide else random.choice(clusters)
    longest = min(row.longest, settings.faults_end / 2)
    lasts = _spread(min(row.shortest, longest), longest, random)
    begins = timedelta(seconds=random.uniform(0, (settings.faults_end - lasts).total_seconds()))
    return Incident(begins, kind, target, lasts, random.random())


def _spread(shortest: timedelta, longest: timedelta, random: Random) -> timedelta:
    """Choose a length so that minutes are as likely as hours and days."""
    low, high = math.log(shortest.total_seconds()), math.log(longest.total_seconds())
    return timedelta(seconds=math.exp(random.uniform(low, high)))
