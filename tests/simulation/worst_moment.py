"""An administrator who acts at the worst moment: just when a request of a joining or renewing cluster is in flight."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from itertools import product

from msgspec import Struct
from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator, quietly
from tests.simulation.cluster import SECRET
from tests.simulation.fleet import ClusterExpectation, Intent, SimulatedFleet
from tests.simulation.held_credentials import ADDON
from tests.simulation.incidents import Incident
from tests.simulation.settings import HOUR

from watchword.admin.accept import HubAdmin, deny
from watchword.admin.errors import AdminError
from watchword.admin.revoke.kinds import plan_addon
from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, Annotation
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339
from watchword.kube.errors import KubeError

REQUEST = re.compile(r"^POST .*/(certificatesigningrequests|serviceaccounts/[^/]+/token)$")
ENTRY = re.compile(rf"^POST .*/{AGENT_NAMESPACE}/secrets$")  # of a cluster that asks for no certificate
REQUESTED_WITHIN = 8 * HOUR
"""From the cause until a request of the cluster; without one, as the hub is away, the deed is done all the same."""

DEEDS = ("deny", "delete", "revoke", "rotate", "create_again")
PASSES = (0, 4, 12)  # of the loop, between the request and the deed: the hub is about to decide, or has decided


class WorstMoment(Struct, frozen=True):
    """What is done to one cluster."""

    fleet: SimulatedFleet
    admin: Administrator
    prober: AccessProber
    incident: Incident

    async def act(self) -> bool:
        """Cause a join or a renewal, and act once a request is in flight; False when another incident has the word."""
        cause, deed, passes = self.incident.choose(list(product((self._join, self._rotate), DEEDS, PASSES)))
        if self._standing.intent is not Intent.MEMBER:
            return False
        is_joining, member = cause == self._join, self.fleet.members[self._name]
        if is_joining:
            self._standing.intent = Intent.REMOVED
        requested = self.fleet.history.expect((self._name,), ENTRY if is_joining and member.eks_pair else REQUEST)
        causing = asyncio.create_task(cause())
        with suppress(TimeoutError):
            async with asyncio.timeout(REQUESTED_WITHIN.total_seconds()):
                await requested
        for _ in range(passes):
            await asyncio.sleep(0)
        causing.cancel()
        if not is_joining and self._standing.intent is not Intent.MEMBER:
            return False
        self._standing.intent = Intent.REMOVED
        state = "not made" if requested.cancelled() else "in flight"
        self.fleet.history.note("admin", f"{self._name}: {deed} while a request is {state}")
        await getattr(self, f"_{deed}")()
        return True

    async def undo(self) -> bool:
        """Make it an accepted cluster again; False: its deletion never ended."""
        is_new = await self.admin.bring_back(self._name)
        self._standing.intent, self._standing.member_since = Intent.MEMBER, self.fleet.elapsed
        return is_new

    @property
    def _name(self) -> str:
        return self.incident.target

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey.cluster(self._name)

    @property
    def _standing(self) -> ClusterExpectation:
        return self.fleet.standing[self._name]

    @property
    def _hub_admin(self) -> HubAdmin:
        return HubAdmin(self.admin.client, self.fleet.clock)

    async def _join(self) -> None:
        """Let the cluster join from the beginning: neither the hub nor the cluster has anything of it left."""
        await self.admin.delete_cluster(self._name)
        while self.fleet.stored.get(MANAGED_CLUSTERS, self._key) is not None:  # noqa: ASYNC110 - a store rings no bell
            await asyncio.sleep(1)
        await quietly(self.fleet.members[self._name].client().delete(SECRETS, SECRET))
        await self.admin.create_cluster(self._name, accepted=True)

    async def _rotate(self) -> None:
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
        for resource, key in ((MANAGED_CLUSTERS, self._key), (MANAGED_CLUSTER_ADDONS, ObjectKey(self._name, ADDON))):
            await quietly(self.admin.client.patch(resource, key, patch))

    async def _deny(self) -> None:
        with suppress(AdminError, KubeError):  # it is not there yet, or the hub is down
            await deny(self._hub_admin, self._name)
            self._standing.intent, self._standing.denied_since = Intent.DENIED, self.fleet.elapsed

    async def _delete(self) -> None:
        await self.admin.delete_cluster(self._name)

    async def _revoke(self) -> None:
        token = self.prober.token_of(self.fleet.members[self._name])
        with suppress(AdminError, KubeError):
            revocation = await plan_addon(self._hub_admin, f"{self._name}/{ADDON}")
            await revocation.act()
            if token:
                await self.prober.expect_token_refused(self._name, token, "was revoked")

    async def _create_again(self) -> None:
        await self.admin.create_again(self._name, await self.admin.delete_cluster(self._name))
