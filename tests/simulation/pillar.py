"""What one part of the product brings to a simulated life: programs, wishes of people, incidents and promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.fleet import Intent, SimulatedFleet
from tests.simulation.held_credentials import HeldCredential
from tests.simulation.incidents import Incident, IncidentDefinition
from tests.simulation.settings import HOUR
from tests.simulation.violations import Violations

from watchword.api.meta import ObjectKey, Resource

RENEWS_WITHIN = 8 * HOUR
"""Of peace before its end: so much is enough to renew any credential of a simulated fleet."""

HEALS_WITHIN = 12 * HOUR
"""In peace: until a changed key is noticed and its tokens are replaced, with the longest of all retries."""


@dataclass
class Pillar:
    """One part of the product. A subclass overrides what it has; methods marked with `incident` happen to it.

    Adding one is one file with one subclass, and one name in `catalog.py`.
    """

    name: ClassVar[str] = ""
    at_hub: ClassVar[bool] = True  # whether a program of it runs at the hub
    renewal_writes: ClassVar[tuple[str, ...]] = ()  # patterns of writes that a renewal needs
    routine_writes: ClassVar[tuple[str, ...]] = ()  # patterns of writes that come whatever happens

    fleet: SimulatedFleet
    admin: Administrator
    prober: AccessProber
    violations: Violations
    _wrong_since: dict[str, timedelta] = field(default_factory=dict)

    @classmethod
    def incidents(cls) -> Mapping[str, IncidentDefinition]:
        """Return what happens to this pillar, by name."""
        found = {name: getattr(cls, name) for name in dir(cls)}
        return {name: value for name, value in found.items() if isinstance(value, IncidentDefinition)}

    @property
    def members(self) -> list[SimulatedCluster]:
        """The clusters that take part."""
        return [member for member in self.fleet.members.values() if self.name in member.profile.pillars]

    @property
    def settled_members(self) -> list[SimulatedCluster]:
        """Those which the administrator wants now."""
        return [member for member in self.members if self.fleet.standing[member.name].intent is Intent.MEMBER]

    def touched(self, incident: Incident) -> Iterable[str]:
        """Return the pillars that an incident of this one concerns."""
        crosses = self.incidents()[incident.kind].row.crosses
        return self.fleet.members[incident.target].profile.pillars if crosses else (self.name,)

    async def start(self) -> None:
        """Add the programs of this pillar; the control planes run, the agents do not yet."""

    async def round(self) -> None:
        """Do what its administrator does from time to time: declare what is wanted."""

    async def hour(self) -> None:
        """Use it as consumers do that need it each hour."""

    async def step(self) -> None:
        """Use it as its consumers do, and compare what is reported with what the servers say."""

    def held(self) -> Iterable[HeldCredential]:
        """Yield every credential of this pillar as its holder has it."""
        return ()

    def issued(self) -> Iterator[tuple[str, str, datetime]]:
        """Yield which cluster or program renews a credential, what it is, and when it was issued."""
        for held in self.held():
            yield held.cluster, held.what, held.issued_at

    def secret_values(self) -> Iterator[tuple[str, bytes]]:
        """Yield every secret value of this pillar with what it is."""
        yield from ()

    def objections(self) -> Iterable[tuple[str, str]]:
        """Yield what is wrong at this instant, and the cluster that it concerns."""
        return ()

    def waiting(self) -> Iterable[tuple[str, str, tuple[str, ...]]]:
        """Yield what is not as wanted as far as the hub can know, the cluster, and how the reason of a finding begins.

        A finding with such a reason has to name the cluster.
        """
        return ()

    def unsettled(self) -> Iterable[tuple[str, str]]:
        """Yield what is wrong once no fault has happened for days, and the cluster that it concerns."""
        return ()

    def expected_objects(self) -> Mapping[Resource, Iterable[ObjectKey]]:
        """Return the labelled objects at the hub that a settled fleet has because of this pillar."""
        return {}

    def expected_secrets(self, member: SimulatedCluster) -> int:
        """Return how many Secrets a settled cluster has because of this pillar."""
        return 0

    def expect(self, what: str, *, broken: bool, cluster: str, within: timedelta = HEALS_WITHIN) -> None:
        """Allow something to be wrong for a while: it is a violation once nothing has disturbed it for that long."""
        key = f"{cluster}: {what}"
        if not broken:
            self._wrong_since.pop(key, None)
            return
        since = self._wrong_since.setdefault(key, self.fleet.elapsed)
        if self.fleet.standing[cluster].is_calm(since=self.fleet.elapsed - within) and (
            self.fleet.elapsed - since >= within
        ):
            self.violations.add(f"{key}, for {within} in peace", cluster)
