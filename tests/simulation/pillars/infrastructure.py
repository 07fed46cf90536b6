"""What happens to every program alike: crashes, networks, clocks, control planes and their keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.helpers.fault_injection import FaultPlan, WatchFaults
from tests.simulation.administrator import quietly
from tests.simulation.fleet import Intent
from tests.simulation.hostile import undo_hostile_writes
from tests.simulation.incidents import Incident, incident
from tests.simulation.network import Link
from tests.simulation.pillar import Pillar
from tests.simulation.process import RESTART_AFTER, SimulatedProcess
from tests.simulation.settings import DAY, HOUR, MINUTE
from tests.simulation.worst_moment import WorstMoment

from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.pki.certificates import Certificate, split_bundle
from watchword.testing.virtual_time import VirtualClock

REQUEST_FAULTS = FaultPlan(refuse=0.1, lose=0.1, cut=0.05, fail=0.3, stall=0.05, delay=0.1)
WATCH_FAULTS = FaultPlan(delay=0.05, watch=WatchFaults(drop=0.2, cut=0.1, delay=0.2, duplicate=0.2, expire=0.1))
SKEWS = (timedelta(minutes=5), timedelta(minutes=-5), HOUR, -HOUR)
MOST_WRITES = 40  # between the beginning of a crash's incident and the crash
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 1800.0  # seconds that a killed process stays away


class Infrastructure(Pillar):
    """What all programs stand on."""

    name = "infrastructure"

    def touched(self, incident: Incident) -> Iterable[str]:
        """Return the pillars of the program that is killed, else of the cluster, else all."""
        found = dict.fromkeys(name for member in self.fleet.members.values() for name in member.profile.pillars)
        if incident.kind in ("agent_crash", "hub_crash"):
            return [name for name in found if name in self._victim(incident).pillars]
        if incident.target:
            return self.fleet.members[incident.target].profile.pillars
        rows = self.incidents()[incident.kind].row
        at_hub = {name for process in self.fleet.processes_at("") for name in process.pillars}
        return [name for name in found if not rows.at_hub or name in at_hub]

    def _victim(self, incident: Incident) -> SimulatedProcess:
        """Return the program that is killed: one of the cluster's, the leading hub, or another one at the hub."""
        if incident.target:
            return incident.choose(self.fleet.processes_at(incident.target))  # type: ignore[no-any-return]
        others = [process for process in self.fleet.added if not process.cluster]
        leader = self.fleet.team.leader(self.fleet.stored)
        return incident.choose([leader, *others])  # type: ignore[no-any-return]

    @incident(6, DAY)
    async def agent_crash(self, incident: Incident) -> AsyncIterator[None]:
        """A program of the cluster is killed after some write."""
        async with self._crash(incident):
            yield

    @incident(4, DAY, fleet_wide=True, at_hub=True)
    async def hub_crash(self, incident: Incident) -> AsyncIterator[None]:
        """The leading hub, or another program there, is killed after some write."""
        async with self._crash(incident):
            yield

    @asynccontextmanager
    async def _crash(self, incident: Incident) -> AsyncIterator[None]:
        process = self._victim(incident)
        if process.run is not None:
            process.run.crash_after = 1 + int(incident.amount * MOST_WRITES)
        yield
        if process.run is not None and process.run.crash_after is not None:  # too few writes came
            process.kill(restart_after=SHORTEST_PAUSE + incident.amount * LONGEST_PAUSE)

    @incident(1, MINUTE, 12 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def hub_outage(self, _: Incident) -> AsyncIterator[None]:
        """No program of the hub runs."""
        for process in self.fleet.processes_at(""):
            process.kill()
        yield
        for process in self.fleet.processes_at(""):
            process.start()

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True)
    async def api_outage(self, _: Incident) -> AsyncIterator[None]:
        """The hub's API server is down."""
        await self.fleet.hub.stop()
        yield
        await self.fleet.hub.start()

    @incident(1, MINUTE, 6 * HOUR, excuses=True)
    async def cluster_api_outage(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster's API server is down."""
        plane = self.fleet.members[incident.target].plane
        await plane.stop()
        yield
        await plane.start()

    @incident(4, MINUTE, 10 * DAY, excuses=True)
    async def partition(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster cannot reach the hub."""
        async with _cut(self.fleet.members[incident.target].to_hub):
            yield

    @incident(1, MINUTE, 12 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def hub_partition(self, _: Incident) -> AsyncIterator[None]:
        """The leading hub cannot reach its API server."""
        async with _cut(*self._hub_links()):
            yield

    @incident(2, MINUTE, 6 * HOUR, excuses=True)
    async def request_faults(self, incident: Incident) -> AsyncIterator[None]:
        """Requests fail, hang and get lost."""
        async with self._some_links_under(REQUEST_FAULTS, incident):
            yield

    @incident(2, MINUTE, 12 * HOUR, excuses=True)
    async def watch_faults(self, incident: Incident) -> AsyncIterator[None]:
        """Watch events are lost, late and repeated."""
        async with self._some_links_under(WATCH_FAULTS, incident):
            yield

    @incident(2, MINUTE, 12 * HOUR, excuses=True)
    async def stale_agent(self, incident: Incident) -> AsyncIterator[None]:
        """The watches of the cluster's programs fall silent."""
        async with _stale(incident, self.fleet.members[incident.target].links):
            yield

    @incident(1, MINUTE, 12 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def stale_hub(self, incident: Incident) -> AsyncIterator[None]:
        """The watches of the leading hub fall silent."""
        async with _stale(incident, self._hub_links()):
            yield

    @incident(2, HOUR, 3 * DAY)
    async def skew(self, incident: Incident) -> AsyncIterator[None]:
        """The clock of the cluster is wrong; it is set while its programs are down."""
        skew = incident.choose(SKEWS)
        for step in (skew, -skew):
            for process in self.fleet.processes_at(incident.target):
                process.kill(restart_after=MINUTE.total_seconds())
            self.fleet.members[incident.target].clock.skew += step
            if step is skew:
                yield

    @incident(2, MINUTE, HOUR)
    async def clock_jump(self, incident: Incident) -> AsyncIterator[None]:
        """The clock of the cluster jumps in the middle of a reconcile, and back in the middle of another."""
        async with self._jumped(incident, self.fleet.members[incident.target].clock):
            yield

    @incident(1, MINUTE, HOUR, fleet_wide=True)
    async def hub_clock_jump(self, incident: Incident) -> AsyncIterator[None]:
        """The clock of the hub jumps in the middle of a reconcile, and back in the middle of another."""
        async with self._jumped(incident, self.fleet.hub_clock):
            yield

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True)
    async def suspend(self, incident: Incident) -> AsyncIterator[None]:
        """All machines are suspended for so long: when they resume, wall clocks have moved on, and timers have not."""
        await self._reach_a_write("")
        for clock in self.fleet.clocks:
            clock.skew += incident.lasts
        yield

    @asynccontextmanager
    async def _jumped(self, incident: Incident, clock: VirtualClock) -> AsyncIterator[None]:
        skew = incident.choose(SKEWS)
        for step in (skew, -skew):
            await self._reach_a_write(incident.target)
            clock.skew += step
            self.fleet.history.note("fault", f"the clock of {incident.target or 'the hub'} jumps by {step}")
            if step is skew:
                yield

    async def _reach_a_write(self, cluster: str) -> None:
        """Request a rotation, and return in the middle of the reconcile that a program there does for it."""
        written = self.fleet.history.expect([process.name for process in self.fleet.processes_at(cluster)])
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
        key = ObjectKey.cluster(cluster or next(iter(self.fleet.members)))
        await quietly(self.admin.client.patch(MANAGED_CLUSTERS, key, patch))
        await asyncio.wait((written,), timeout=MINUTE.total_seconds())
        written.cancel()

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True)
    async def disk_full(self, _: Incident) -> AsyncIterator[None]:
        """The hub's API server answers reads, and refuses every write."""
        self.fleet.hub.refused_writes += 1
        yield
        self.fleet.hub.refused_writes -= 1

    @incident(1, MINUTE, 6 * HOUR, excuses=True)
    async def cluster_disk_full(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster's API server answers reads, and refuses every write."""
        plane = self.fleet.members[incident.target].plane
        plane.refused_writes += 1
        yield
        plane.refused_writes -= 1

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True)
    async def memory_refused(self, _: Incident) -> AsyncIterator[None]:
        """The hub's API server has no memory for half of the requests."""
        self.fleet.hub.starved += 1
        yield
        self.fleet.hub.starved -= 1

    @incident(1, HOUR, 2 * DAY, fleet_wide=True, excuses=True)
    async def backup_restored(self, _: Incident) -> AsyncIterator[None]:
        """The hub's data are replaced by a backup; what was accepted, deleted and created since is so again."""
        earlier = self.fleet.hub.store.copy()
        yield
        created = [cluster["metadata"]["name"] for cluster in self.fleet.stored.list(MANAGED_CLUSTERS)]
        known = self._grpc_authorities()
        await self.fleet.hub.restore(earlier)
        if self.fleet.grpc is not None:
            self.fleet.grpc.lost += [each for each in known if each not in self._grpc_authorities()]
        for name, standing in self.fleet.standing.items():
            await undo_hostile_writes(self.fleet.members[name], self.admin)
            if standing.intent is Intent.REMOVED:
                await self.admin.delete_cluster(name)
            elif standing.intent is Intent.MEMBER and name in created:
                await self.admin.bring_back(name)  # the backup may hold it in deletion
            elif standing.intent is Intent.MEMBER:
                await self.admin.accept(name, accepted=True)

    def _grpc_authorities(self) -> Sequence[Certificate]:
        published = b"" if self.fleet.grpc is None else self.fleet.grpc.published_authorities
        return split_bundle(published) if published else ()

    @incident(1, HOUR, fleet_wide=True)
    async def hub_moved(self, _: Incident) -> AsyncIterator[None]:
        """The hub answers at another address, which is in the bootstrap kubeconfigs, and no more at the one before."""
        self.fleet.hub.moves += 1
        for link in self.fleet.links:
            link.hang_up()
        yield

    @incident(1, HOUR)
    async def programs_replaced(self, incident: Incident) -> AsyncIterator[None]:
        """Every program is exchanged while a rotation is under way: some writes after it was requested, twice."""
        for turn in (1, 2):
            patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
            await quietly(self.admin.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(incident.target), patch))
            for process in (*self.fleet.processes_at(incident.target), *self.fleet.processes_at("")):
                if process.run is not None:
                    process.run.crash_after = turn + int(incident.amount * 3)
            await asyncio.sleep(RESTART_AFTER * turn)
        yield

    @incident(2, MINUTE, DAY, excuses=True)
    async def worst_moment(self, incident: Incident) -> AsyncIterator[None]:
        """While a cluster joins or renews, it is denied, deleted or created again, its add-on revoked, or rotated."""
        moment = WorstMoment(self.fleet, self.admin, self.prober, incident)
        acted = await moment.act()
        yield
        if acted and not await moment.undo():
            self.violations.add(f"the deletion of {incident.target} never ended", incident.target)

    @incident(1, 10 * DAY, fleet_wide=True)
    async def authority(self, incident: Incident) -> AsyncIterator[None]:
        """The hub's certificate authority changes; the one before is distrusted ten days later."""
        previous = self.fleet.hub.change_authority()
        yield
        if incident.lasts > self.fleet.settings.longest_life:
            self.fleet.hub.distrust(previous.certificate)
            await self.prober.expect_distrusted_ca_refused(next(iter(self.fleet.members.values())), previous)

    @incident(1, HOUR, fleet_wide=True)
    async def hub_token_key(self, incident: Incident) -> AsyncIterator[None]:
        """The hub signs tokens with another key, and refuses those of the one before, or accepts them."""
        await self.fleet.hub.change_token_key(keep_old=incident.amount < 0.3)
        yield

    @incident(1.5, HOUR)
    async def cluster_token_key(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster signs tokens with another key, and refuses those of the one before, or accepts them."""
        await self.fleet.members[incident.target].plane.change_token_key(keep_old=incident.amount < 0.3)
        yield

    def _hub_links(self) -> list[Link]:
        team = self.fleet.team
        leader = team.links[team.processes.index(team.leader(self.fleet.stored))]
        return [leader, *self.fleet.hub_links.values()]

    @asynccontextmanager
    async def _some_links_under(self, plan: FaultPlan, incident: Incident) -> AsyncIterator[None]:
        """Disturb the roads of one cluster, of the hub, or all of them; those of the hub excuse every cluster."""
        fleet = self.fleet
        links, touched = list(fleet.members[incident.target].links), tuple[str, ...]()
        if incident.amount < 0.4:
            links, touched = [*fleet.team.links, *fleet.hub_links.values()], tuple(fleet.members)
        if incident.amount < 0.2:
            links = fleet.links
        with fleet.disturbed(touched, excuses=True):
            async with _under(links, plan):
                yield


@asynccontextmanager
async def _cut(*links: Link) -> AsyncIterator[None]:
    for link in links:
        link.sever()
    yield
    for link in links:
        link.mend()


@asynccontextmanager
async def _under(links: Iterable[Link], plan: FaultPlan) -> AsyncIterator[None]:
    links = list(links)
    for link in links:
        link.plans.append(plan)
    yield
    for link in links:
        link.plans.remove(plan)


@asynccontextmanager
async def _stale(incident: Incident, links: Iterable[Link]) -> AsyncIterator[None]:
    links = list(links)
    for link in links:
        link.hold()
    yield
    for link in links:
        link.release(lose=incident.amount < 0.5)
