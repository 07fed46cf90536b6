"""Makes the incidents of a simulated run happen, and ends them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from tests.helpers.fault_injection import FaultPlan, WatchFaults
from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator
from tests.simulation.cluster import SECRET, SimulatedCluster
from tests.simulation.fleet import Intent, SimulatedFleet
from tests.simulation.held_credentials import ADDON
from tests.simulation.incidents import EXPIRY_ALLOWED, Incident, IncidentKind
from tests.simulation.network import Link
from tests.simulation.settings import HOUR, MINUTE

from watchword.api.meta import ObjectKey, Resource
from watchword.api.names import (
    ADDON_NAMESPACE,
    Annotation,
    addon_service_account,
    cluster_role,
    registration_binding,
    work_binding,
)
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339
from watchword.kube.errors import KubeError

REQUEST_FAULTS = FaultPlan(refuse=0.1, lose=0.1, cut=0.05, fail=0.3, stall=0.05, delay=0.1)
WATCH_FAULTS = FaultPlan(delay=0.05, watch=WatchFaults(drop=0.2, cut=0.1, delay=0.2, duplicate=0.2, expire=0.1))
SKEWS = (timedelta(minutes=5), timedelta(minutes=-5), HOUR, -HOUR)
MOST_WRITES = 40  # between the beginning of a crash's incident and the crash
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 1800.0  # seconds that a killed process stays away

FaultContext = Callable[[Incident], AbstractAsyncContextManager[None]]


@dataclass
class FaultInjector:
    """Plays incidents; several may be under way at once, also to the same cluster."""

    fleet: SimulatedFleet
    admin: Administrator
    probes: AccessProber

    async def inject(self, incidents: Iterable[Incident]) -> None:
        """Let everything happen at its time; returns when the last fault is over."""
        async with asyncio.TaskGroup() as group:
            for incident in incidents:
                group.create_task(self._inject_incident(incident), name=str(incident))

    async def _inject_incident(self, incident: Incident) -> None:
        await asyncio.sleep((incident.at - self.fleet.elapsed).total_seconds())
        history = self.fleet.history
        touched = [incident.target] if incident.target else list(self.fleet.members)
        with self.fleet.disturbed(touched if incident.kind in EXPIRY_ALLOWED else ()):
            history.note("fault", f"{incident} begins")
            async with self._faults[incident.kind](incident):
                await asyncio.sleep(incident.lasts.total_seconds())
            history.note("fault", f"{incident} ends")

    @property
    def _faults(self) -> dict[IncidentKind, FaultContext]:
        return {
            IncidentKind.AGENT_CRASH: lambda i: self._crash(i, self._member(i).agent.name),
            IncidentKind.HUB_CRASH: lambda i: self._crash(i, ""),
            IncidentKind.HUB_OUTAGE: self._hub_outage,
            IncidentKind.API_OUTAGE: self._api_outage,
            IncidentKind.PARTITION: lambda i: self._cut([self._member(i).to_hub]),
            IncidentKind.HUB_PARTITION: lambda _: self._cut([self._leaders_link()]),
            IncidentKind.REQUEST_FAULTS: lambda i: self._inject(self._some_links(i), REQUEST_FAULTS),
            IncidentKind.WATCH_FAULTS: lambda i: self._inject(self._some_links(i), WATCH_FAULTS),
            IncidentKind.STALE_AGENT: lambda i: self._stale(i, self._member(i).links),
            IncidentKind.STALE_HUB: lambda i: self._stale(i, (self._leaders_link(),)),
            IncidentKind.SKEW: self._skew,
            IncidentKind.AUTHORITY: self._authority,
            IncidentKind.CREDENTIAL_LOST: lambda i: self._lose(i, SECRET),
            IncidentKind.CREDENTIAL_DAMAGED: self._damage,
            IncidentKind.ADDON_CREDENTIAL_LOST: lambda i: self._lose(
                i, ObjectKey(ADDON_NAMESPACE, f"{ADDON}-hub-kubeconfig")
            ),
            IncidentKind.ACCOUNT_LOST: self._account,
            IncidentKind.ADDON_REMOVED: self._addon,
            IncidentKind.DENIAL: self._denial,
            IncidentKind.REMOVAL: self._removal,
            IncidentKind.OBJECT_DELETED: self._delete_object,
            IncidentKind.ROTATION: self._rotation,
        }

    def _member(self, incident: Incident) -> SimulatedCluster:
        return self.fleet.members[incident.target]

    def _leaders_link(self) -> Link:
        team = self.fleet.team
        return team.links[team.processes.index(team.leader(self.fleet.stored))]

    def _some_links(self, incident: Incident) -> list[Link]:
        """Return the roads of one cluster, of the hub, or all of them."""
        if incident.amount < 0.2:
            return self.fleet.links
        return list(self.fleet.team.links) if incident.amount < 0.4 else list(self._member(incident).links)

    @asynccontextmanager
    async def _crash(self, incident: Incident, agent: str) -> AsyncIterator[None]:
        team, members = self.fleet.team, self.fleet.members
        process = members[agent].agent if agent else team.leader(self.fleet.stored)
        writes = 1 + int(incident.amount * MOST_WRITES)
        if process.run is not None:
            process.run.crash_after = writes
        try:
            yield
        finally:
            if process.run is not None and process.run.crash_after is not None:  # too few writes came
                process.kill(restart_after=SHORTEST_PAUSE + incident.amount * LONGEST_PAUSE)

    @asynccontextmanager
    async def _hub_outage(self, _: Incident) -> AsyncIterator[None]:
        for process in self.fleet.team.processes:
            process.kill()
        yield
        for process in self.fleet.team.processes:
            process.start()

    @asynccontextmanager
    async def _api_outage(self, _: Incident) -> AsyncIterator[None]:
        await self.fleet.hub.stop()
        yield
        await self.fleet.hub.start()

    @asynccontextmanager
    async def _cut(self, links: Iterable[Link]) -> AsyncIterator[None]:
        links = list(links)
        for link in links:
            link.sever()
        yield
        for link in links:
            link.mend()

    @asynccontextmanager
    async def _inject(self, links: Iterable[Link], plan: FaultPlan) -> AsyncIterator[None]:
        links = list(links)
        for link in links:
            link.plans.append(plan)
        yield
        for link in links:
            link.plans.remove(plan)

    @asynccontextmanager
    async def _stale(self, incident: Incident, links: Iterable[Link]) -> AsyncIterator[None]:
        links = list(links)
        for link in links:
            link.hold()
        yield
        for link in links:
            link.release(lose=incident.amount < 0.5)

    @asynccontextmanager
    async def _skew(self, incident: Incident) -> AsyncIterator[None]:
        """Set the clock while the agent is down: a running one looks at its clock every minute."""
        member = self._member(incident)
        skew = SKEWS[int(incident.amount * len(SKEWS))]
        for step in (skew, -skew):
            member.agent.kill(restart_after=MINUTE.total_seconds())
            member.clock.skew += step
            if step is skew:
                yield

    @asynccontextmanager
    async def _authority(self, incident: Incident) -> AsyncIterator[None]:
        previous = self.fleet.hub.change_authority()
        yield
        if incident.lasts > self.fleet.settings.longest_life:
            self.fleet.hub.distrust(previous.certificate)
            await self.probes.expect_distrusted_ca_refused(next(iter(self.fleet.members.values())), previous)

    @asynccontextmanager
    async def _lose(self, incident: Incident, secret: ObjectKey) -> AsyncIterator[None]:
        await _quietly(self._member(incident).client().delete(SECRETS, secret))
        yield

    @asynccontextmanager
    async def _damage(self, incident: Incident) -> AsyncIterator[None]:
        key = ("tls.crt", "tls.key", "kubeconfig", "cluster-name")[int(incident.amount * 4)]
        patch = {"data": {key: "c2NyaWJibGU="}}
        await _quietly(self._member(incident).client().patch(SECRETS, SECRET, patch))
        yield

    @asynccontextmanager
    async def _account(self, incident: Incident) -> AsyncIterator[None]:
        name = incident.target
        account = ObjectKey(name, addon_service_account(name, ADDON))
        old = self.probes.token_of(self._member(incident))
        deleted = await _quietly(self.admin.client.delete(SERVICE_ACCOUNTS, account))
        yield
        if deleted and old:
            await self.probes.expect_token_refused(name, old)

    @asynccontextmanager
    async def _addon(self, incident: Incident) -> AsyncIterator[None]:
        await _quietly(self.admin.client.delete(MANAGED_CLUSTER_ADDONS, ObjectKey(incident.target, ADDON)))
        yield

    @asynccontextmanager
    async def _denial(self, incident: Incident) -> AsyncIterator[None]:
        name, standing = incident.target, self.fleet.standing[incident.target]
        if standing.intent is not Intent.MEMBER:
            yield  # another incident has the word
            return
        standing.intent = Intent.DENIED
        await self.admin.accept(name, accepted=False)
        yield
        await self.probes.expect_denied_refused(self._member(incident))
        await self.admin.accept(name, accepted=True)
        standing.intent = Intent.MEMBER

    @asynccontextmanager
    async def _removal(self, incident: Incident) -> AsyncIterator[None]:
        name, standing = incident.target, self.fleet.standing[incident.target]
        if standing.intent is not Intent.MEMBER:
            yield  # another incident has the word
            return
        standing.intent = Intent.REMOVED
        deleted_uid = await self.admin.delete_cluster(name)
        yield
        await self.probes.expect_deleted_refused(self._member(incident))
        if not await self.admin.create_again(name, deleted_uid):
            self.probes.violations.add(f"the deletion of {name} never ended", name)
        standing.intent = Intent.MEMBER

    @asynccontextmanager
    async def _delete_object(self, incident: Incident) -> AsyncIterator[None]:
        made = _made_for(incident.target)
        resource, key = made[int(incident.amount * len(made))]
        await _quietly(self.admin.client.delete(resource, key))
        yield

    @asynccontextmanager
    async def _rotation(self, incident: Incident) -> AsyncIterator[None]:
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
        await _quietly(self.admin.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(incident.target), patch))
        yield


def _made_for(cluster: str) -> list[tuple[Resource, ObjectKey]]:
    return [
        (CLUSTER_ROLES, ObjectKey.cluster(cluster_role(cluster))),
        (CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(cluster_role(cluster))),
        (ROLE_BINDINGS, ObjectKey(cluster, registration_binding(cluster))),
        (ROLE_BINDINGS, ObjectKey(cluster, work_binding(cluster))),
        (LEASES, ObjectKey(cluster, "managed-cluster-lease")),
    ]


async def _quietly(attempt: Awaitable[object]) -> bool:
    """Do something that may come to nothing: the thing is gone already, or the hub is down. Returns whether it did."""
    try:
        await attempt
    except KubeError:
        return False
    return True
