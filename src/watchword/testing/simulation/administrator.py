"""The people behind a simulated fleet: they want clusters and add-ons, and help where only people can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from watchword.fleet.accepting import Doorkeeper
from watchword.fleet.errors import Refused, TooLate
from watchword.fleet.hub_desk import HubDesk
from watchword.fleet.rejoining import TakeOver
from watchword.hub.first_request import Terms
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Conflict, NotFound, Unreachable
from watchword.testing.builders import a_cluster, a_config_map, an_addon
from watchword.testing.simulation.holdings import ADDON
from watchword.testing.simulation.member import Member
from watchword.testing.simulation.settings import HOUR
from watchword.testing.simulation.wire import Life, Link, Wire
from watchword.testing.simulation.world import Intent, World

T = TypeVar("T")

WORK = "settings"
WORK_OBJECT = ObjectKey("default", "settings")
KUBE_CLIENT: list[Object] = [{"type": "kubeClient"}]
TRY_AGAIN = 300.0  # seconds
HELP_AFTER = 2 * HOUR


@dataclass
class Administrator:
    """Acts on the hub as a person with every right; never gives up while the hub is down."""

    world: World
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        link = Link("admin", Random(0))  # noqa: S311 - draws nothing
        life = Life("admin", die=lambda: None)
        inner = self.world.hub.administrator().transport
        self.client = Client(Wire(inner, link, life, self.world.history), random=Random(0))  # noqa: S311 - replayable

    async def prepare(self) -> None:
        """Create every other cluster beforehand; the rest introduce themselves."""
        for number, name in enumerate(self.world.members):
            if number % 2 == 0:
                await self.create_cluster(name)

    async def round(self) -> None:
        """See to it that what is wanted is there: leases as long as agreed, add-ons, works, a helping hand."""
        for name, member in self.world.members.items():
            if self.world.standing[name].intent is not Intent.MEMBER:
                continue
            await self._agree_on_lease(name)
            await self._want_addon(member)
            await self._want_work(member)
            if is_stranded(self.world, name):
                await self.rejoin(name)

    async def create_cluster(self, name: str, *, accepted: bool = False) -> None:
        """Create a cluster that the hub may accept by itself, or one that is accepted."""
        seconds = int(self.world.settings.lease.total_seconds())
        cluster = a_cluster(name, accepted=accepted, lease_seconds=seconds)
        await self._insist(lambda: self.client.create(MANAGED_CLUSTERS, cluster))

    async def accept(self, name: str, *, accepted: bool) -> None:
        """Accept or deny a cluster."""
        patch = {"spec": {"hubAcceptsClient": accepted}}
        await self._insist(lambda: self.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch))

    async def delete_cluster(self, name: str) -> None:
        """Delete a cluster; the hub takes its time."""
        await self._insist(lambda: self.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(name)))

    async def create_again(self, name: str) -> bool:
        """Create a cluster whose name was deleted, once the hub is done with the one before; False: it never was."""
        patience = self.world.elapsed + 7 * self.world.settings.lease  # five of them until its agent is given up
        while self.world.shelf.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is not None:
            if self.world.elapsed > patience:
                return False
            await asyncio.sleep(TRY_AGAIN)
        await self.create_cluster(name, accepted=True)
        return True

    async def rejoin(self, name: str) -> None:
        """Let a cluster back in whose credential is lost, as `watchword rejoin --take-over` does."""
        desk = HubDesk(self.client, self.world.clock)
        terms = Terms(requesters=frozenset(), anyone=True)
        try:
            await TakeOver(Doorkeeper(desk, terms)).run(name, None)
        except (Refused, TooLate, Conflict, Unreachable) as early:
            self.world.history.note("admin", f"rejoin {name}: not yet: {early}")
        else:
            self.world.history.note("admin", f"rejoin {name}: done")

    async def _agree_on_lease(self, name: str) -> None:
        cluster = self.world.shelf.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        seconds = int(self.world.settings.lease.total_seconds())
        if cluster is None or (cluster.get("spec") or {}).get("leaseDurationSeconds") == seconds:
            return
        patch = {"spec": {"leaseDurationSeconds": seconds}}
        await self._insist(lambda: self.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch))

    async def _want_addon(self, member: Member) -> None:
        key = ObjectKey(member.name, ADDON)
        if not member.profile.addon or not self._is_accepted(member.name):
            return
        found = self.world.shelf.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:
            found = await self._insist(
                lambda: self.client.create(MANAGED_CLUSTER_ADDONS, an_addon(ADDON, cluster=member.name))
            )
        if found and not is_deleting(found) and not (found.get("status") or {}).get("registrations"):
            patch = {"status": {"registrations": KUBE_CLIENT}}
            await self._insist(lambda: self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch, subresource="status"))

    async def _want_work(self, member: Member) -> None:
        key = ObjectKey(member.name, WORK)
        if not member.profile.works or not self._is_accepted(member.name):
            return
        if self.world.shelf.get(MANIFEST_WORKS, key) is None:
            content = a_config_map(WORK_OBJECT.name, namespace=WORK_OBJECT.namespace, data={"for": member.name})
            spec = {"workload": {"manifests": [{**content, "apiVersion": "v1", "kind": CONFIG_MAPS.kind}]}}
            await self._insist(lambda: self.client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(key, spec=spec)))

    def _is_accepted(self, name: str) -> bool:
        found = self.world.shelf.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        return found is not None and not is_deleting(found) and is_true(found, ConditionType.HUB_ACCEPTED)

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T | None:
        """Try until the hub answers; what is there already, or gone already, is well."""
        while True:
            try:
                return await attempt()
            except (AlreadyExists, NotFound):
                return None
            except (Unreachable, Conflict):
                await asyncio.sleep(TRY_AGAIN)


def is_stranded(world: World, name: str) -> bool:
    """Whether a cluster waits for a person: nothing disturbs it, and still it has no credential that is good."""
    standing, certificate = world.standing[name], world.members[name].certificate()
    calm = standing.is_calm(since=world.elapsed - HELP_AFTER)
    return calm and (certificate is None or certificate.not_after <= world.now)
