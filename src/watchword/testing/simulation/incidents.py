"""The faults of a simulated life: which, when, to whom and for how long, drawn from the seed alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from random import Random

from watchword.testing.simulation.history import stamp
from watchword.testing.simulation.settings import DAY, HOUR, MINUTE, Settings


class Kind(StrEnum):
    """Everything that can happen to a fleet."""

    AGENT_CRASH = "the agent is killed after some write"
    HUB_CRASH = "the leading hub is killed after some write"
    HUB_OUTAGE = "no hub controller runs"
    API_OUTAGE = "the hub's API server is down"
    PARTITION = "the cluster cannot reach the hub"
    HUB_PARTITION = "the leading hub cannot reach its API server"
    STORM = "requests fail, hang and get lost"
    WATCH_STORM = "watch events are lost, late and repeated"
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
    VANDAL = "something the hub made for the cluster is deleted"
    ROTATION = "somebody asks for an early renewal"


EXCUSES = frozenset(
    {
        Kind.HUB_OUTAGE,
        Kind.API_OUTAGE,
        Kind.PARTITION,
        Kind.HUB_PARTITION,
        Kind.STORM,
        Kind.WATCH_STORM,
        Kind.STALE_AGENT,
        Kind.STALE_HUB,
        Kind.CREDENTIAL_LOST,
        Kind.CREDENTIAL_DAMAGED,
        Kind.DENIAL,
        Kind.REMOVAL,
    }
)
"""While one of these lasts a credential may expire; through everything else it has to be renewed in time."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happens."""

    at: timedelta
    kind: Kind
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


@dataclass(frozen=True, slots=True)
class Likelihood:
    """How often a kind happens beside the others, to whom, and how long it may last."""

    weight: float
    shortest: timedelta
    longest: timedelta
    fleet_wide: bool = False


LIKELIHOODS: dict[Kind, Likelihood] = {
    Kind.AGENT_CRASH: Likelihood(6, DAY, DAY),
    Kind.HUB_CRASH: Likelihood(4, DAY, DAY, fleet_wide=True),
    Kind.HUB_OUTAGE: Likelihood(1, MINUTE, 12 * HOUR, fleet_wide=True),
    Kind.API_OUTAGE: Likelihood(1, MINUTE, 6 * HOUR, fleet_wide=True),
    Kind.PARTITION: Likelihood(4, MINUTE, 10 * DAY),
    Kind.HUB_PARTITION: Likelihood(1, MINUTE, 12 * HOUR, fleet_wide=True),
    Kind.STORM: Likelihood(2, MINUTE, 6 * HOUR),
    Kind.WATCH_STORM: Likelihood(2, MINUTE, 12 * HOUR),
    Kind.STALE_AGENT: Likelihood(2, MINUTE, 12 * HOUR),
    Kind.STALE_HUB: Likelihood(1, MINUTE, 12 * HOUR, fleet_wide=True),
    Kind.SKEW: Likelihood(2, HOUR, 3 * DAY),
    Kind.AUTHORITY: Likelihood(1, 10 * DAY, 10 * DAY, fleet_wide=True),
    Kind.CREDENTIAL_LOST: Likelihood(1, DAY, DAY),
    Kind.CREDENTIAL_DAMAGED: Likelihood(1, DAY, DAY),
    Kind.ADDON_CREDENTIAL_LOST: Likelihood(2, HOUR, HOUR),
    Kind.ACCOUNT_LOST: Likelihood(2, HOUR, HOUR),
    Kind.ADDON_REMOVED: Likelihood(1, MINUTE, DAY),
    Kind.DENIAL: Likelihood(2, MINUTE, 4 * DAY),
    Kind.REMOVAL: Likelihood(1.5, MINUTE, 2 * DAY),
    Kind.VANDAL: Likelihood(2, HOUR, HOUR),
    Kind.ROTATION: Likelihood(1, HOUR, HOUR),
}


def draw_incidents(settings: Settings, clusters: Sequence[str]) -> list[Incident]:
    """Return the whole schedule; the last fault ends before the quiet end of the run begins."""
    random = Random(f"incidents of {settings.seed}")  # noqa: S311 - replayable; its own, so that leaving some out moves none
    count = round(settings.incidents_per_day * settings.storms_end / DAY)
    kinds, rows = list(LIKELIHOODS), list(LIKELIHOODS.values())
    chosen = random.choices(kinds, weights=[row.weight for row in rows], k=count)
    drawn = [_draw(kind, settings, clusters, random) for kind in chosen]
    return sorted(drawn, key=lambda incident: incident.at)


def _draw(kind: Kind, settings: Settings, clusters: Sequence[str], random: Random) -> Incident:
    row = LIKELIHOODS[kind]
    target = "" if row.fleet_wide else random.choice(clusters)
    longest = min(row.longest, settings.storms_end / 2)
    lasts = _spread(min(row.shortest, longest), longest, random)
    begins = timedelta(seconds=random.uniform(0, (settings.storms_end - lasts).total_seconds()))
    return Incident(begins, kind, target, lasts, random.random())


def _spread(shortest: timedelta, longest: timedelta, random: Random) -> timedelta:
    """Choose a length so that minutes are as likely as hours and days."""
    low, high = math.log(shortest.total_seconds()), math.log(longest.total_seconds())
    return timedelta(seconds=math.exp(random.uniform(low, high)))
