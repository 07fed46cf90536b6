"""Everything in a simulated fleet, and what may be expected of each cluster at this moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from random import Random

from tests.simulation.cluster import DRIVERS, ClusterProfile, SimulatedCluster
from tests.simulation.eks import HUB_ARN, SimulatedAws
from tests.simulation.grpc_hub import SimulatedGrpc
from tests.simulation.history import MOST_IN_AN_HOUR, History
from tests.simulation.hub_replicas import HubReplicas
from tests.simulation.network import Link
from tests.simulation.planes import HubPlane, ManagedPlane, PlaneImages, StoreReader
from tests.simulation.process import Program, SimulatedProcess
from tests.simulation.settings import SimulationSettings

from watchword.testing.virtual_time import VirtualClock

START_WITHIN = 600.0  # seconds


class Intent(Enum):
    """What the administrator wants of a cluster."""

    MEMBER = auto()
    DENIED = auto()
    REMOVED = auto()


@dataclass
class ClusterExpectation:
    """How a cluster fares: what is wanted of it, and since when no fault has touched it."""

    intent: Intent = Intent.MEMBER
    faults: int = 0  # under way now
    calm_since: timedelta = timedelta(0)
    incidents: int = 0  # under way now: faults, and what a cluster has to get over without an excuse
    untouched_since: timedelta = timedelta(0)
    denied_since: timedelta = timedelta(0)  # when it was last denied
    member_since: timedelta = timedelta(0)  # when it was last accepted again, or created again

    def is_calm(self, *, since: timedelta) -> bool:
        """Whether no fault has touched the cluster since an instant."""
        return not self.faults and self.calm_since <= since

    def is_untouched(self, *, since: timedelta) -> bool:
        """Whether no incident at all has touched the cluster since an instant."""
        return not self.incidents and self.untouched_since <= since

    def is_denied_in_peace(self, *, since: timedelta) -> bool:
        """Whether the cluster has been denied since an instant, without another fault."""
        return self.intent is Intent.DENIED and self.faults == 1 and max(self.denied_since, self.calm_since) <= since


@dataclass
class SimulatedFleet:
    """A hub, its controllers and its clusters, in one loop."""

    settings: SimulationSettings
    clock: VirtualClock
    history: History
    hub: HubPlane
    team: HubReplicas
    members: dict[str, SimulatedCluster]
    stored: StoreReader
    aws: SimulatedAws | None = None  # the hub's account, where clusters register by IAM
    hub_clock: VirtualClock = field(kw_only=True)  # of the hub's API server and of every program there
    grpc: SimulatedGrpc | None = None  # the hub's gRPC servers, where clusters register by them
    added: list[SimulatedProcess] = field(default_factory=list)  # programs of pillars, besides hub and agents
    hub_links: dict[str, Link] = field(default_factory=dict)  # theirs at the hub
    standing: dict[str, ClusterExpectation] = field(init=False)

    def __post_init__(self) -> None:
        self.standing = {name: ClusterExpectation() for name in self.members}

    @classmethod
    def make(cls, settings: SimulationSettings, images: PlaneImages, random: Random) -> SimulatedFleet:
        """Put a fleet together; nothing runs yet."""
        loop = asyncio.get_running_loop()
        clock, hub_clock = VirtualClock(loop), VirtualClock(loop)
        history = History(loop.time, MOST_IN_AN_HOUR * (1 + settings.clusters // 10))
        hub = HubPlane(images, hub_clock, Random(random.random()))
        aws = SimulatedAws(HUB_ARN.account) if "aws-irsa" in settings.pillars else None
        grpc = SimulatedGrpc(hub, hub_clock, history, Random(settings.seed)) if "grpc" in settings.pillars else None
        replicas = 1 + (settings.seed % 4 == 0)
        team = HubReplicas(hub, hub_clock, history, Random(random.random()), replicas=replicas, aws=aws, grpc=grpc)
        profiles = make_profiles(settings, random)
        members = {profile.name: _member(profile, hub, images, history, random) for profile in profiles}
        for member in members.values():
            member.aws, member.grpc = aws, grpc
        fleet = cls(
            settings, clock, history, hub, team, members, StoreReader(hub.store), aws, grpc, hub_clock=hub_clock
        )
        for link in fleet.links:
            link.plans.append(settings.background_faults)
        return fleet

    @property
    def elapsed(self) -> timedelta:
        """How long the fleet has lived."""
        return self.clock.now() - self.clock.epoch

    @property
    def now(self) -> datetime:
        """The true time."""
        return self.clock.now()

    @property
    def clocks(self) -> list[VirtualClock]:
        """The true time, the clock of the hub, and those of the clusters."""
        return [self.clock, self.hub_clock, *(member.clock for member in self.members.values())]

    @property
    def processes(self) -> list[SimulatedProcess]:
        """Every program of the fleet."""
        return [*self.team.processes, *(member.agent for member in self.members.values()), *self.added]

    def processes_at(self, cluster: str) -> list[SimulatedProcess]:
        """Return the programs of a cluster, or those of the hub."""
        return [process for process in self.processes if process.cluster == cluster]

    def add_process(self, name: str, program: Program, *, pillar: str, cluster: str = "") -> SimulatedProcess:
        """Start a program of a pillar, at the hub or on a cluster."""
        process = SimulatedProcess(name, program, self.history, (pillar,), cluster)
        self.added.append(process)
        process.start()
        return process

    def process(self, name: str) -> SimulatedProcess:
        """Return a program by its name."""
        return next(process for process in self.processes if process.name == name)

    @property
    def links(self) -> list[Link]:
        """Every road of the fleet."""
        roads = (link for member in self.members.values() for link in member.links)
        return [*self.team.links, *self.hub_links.values(), *roads]

    def hub_link(self, name: str) -> Link:
        """Return the road of a pillar's program at the hub to its API server."""
        link = self.hub_links[name] = Link(name, Random(name))
        link.plans.append(self.settings.background_faults)
        return link

    async def start(self, random: Random) -> None:
        """Start everything; agents come within the first minutes, many at the same instant."""
        await self.hub.start()
        self.team.start()
        for member in self.members.values():
            asyncio.get_running_loop().call_later(
                random.choice((0.0, random.uniform(0, START_WITHIN))), member.agent.start
            )
            await member.plane.start()

    async def stop(self) -> None:
        """End everything."""
        for process in self.added:
            await process.end()
        for member in self.members.values():
            await member.stop()
        await self.team.stop()
        await self.hub.stop()

    def clear_faults(self) -> None:
        """End the bad weather."""
        for link in self.links:
            del link.plans[1:]

    @contextmanager
    def disturbed(self, names: Iterable[str], *, excuses: bool) -> Iterator[None]:
        """Note an incident of these clusters; with an excuse, nothing is expected of them meanwhile."""
        touched = [self.standing[name] for name in names]
        for standing in touched:
            standing.incidents += 1
            standing.faults += excuses
        try:
            yield
        finally:
            for standing in touched:
                standing.incidents -= 1
                standing.untouched_since = self.elapsed
                if excuses:
                    standing.faults -= 1
                    standing.calm_since = self.elapsed


def fewest_clusters(pillars: Sequence[str]) -> int:
    """Return how many clusters a life needs so that some cluster takes part in each pillar."""
    return 1 + len({*pillars} & {*DRIVERS}) if "ocm" in pillars else 1


def make_profiles(settings: SimulationSettings, random: Random) -> list[ClusterProfile]:
    """Return what sets each cluster of a life apart."""
    return [_profile(number, settings, random) for number in range(settings.clusters)]


def _profile(number: int, settings: SimulationSettings, random: Random) -> ClusterProfile:
    shortest, longest = settings.shortest_life.total_seconds(), settings.longest_life.total_seconds()
    drivers = [name for name in settings.pillars if name in DRIVERS]
    others = [name for name in settings.pillars if name not in DRIVERS]
    choices = [*drivers, "csr"] if settings.clusters > len(drivers) else drivers
    driver, turn = choices[number % len(choices)], number // len(choices)
    extra = [name for place, name in enumerate(others) if settings.clusters < 4 or (turn + place) % 2 == 0]
    addon, works = ("token", "csr", "")[number % 3] if driver == "csr" else "token", number % 4 == 0
    extra = [name for name in extra if name != "ocm" or driver == "csr"]  # its agents have certificates
    extra += [driver] if driver in DRIVERS else []
    pillars = ("registration", *(["addons"] if addon else []), *(["works"] if works else []), *extra)
    return ClusterProfile(
        name=f"edge-{number + 1}",
        pillars=pillars,
        certificate_lifetime=timedelta(seconds=round(random.uniform(shortest, longest))),
        token_life=timedelta(seconds=round(random.uniform(shortest, longest))),
        addon=addon,
        driver=driver,
    )


def _member(
    profile: ClusterProfile, hub: HubPlane, images: PlaneImages, history: History, random: Random
) -> SimulatedCluster:
    clock = VirtualClock(asyncio.get_running_loop())
    plane = ManagedPlane(images, clock, Random(random.random()))
    return SimulatedCluster(profile, plane, hub, clock, history, Random(random.random()))
