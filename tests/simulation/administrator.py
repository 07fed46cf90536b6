"""The people behind a simulated fleet: they want clusters and add-ons, and help where only people can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tests.simulation.fleet import SimulatedFleet
from tests.simulation.held_credentials import cluster_credential
from tests.simulation.network import Link, ProcessRun, SimulatedTransport
from tests.simulation.planes import replayable_client
from tests.simulation.settings import HOUR

from watchword.admin.accept import ClusterAcceptor, HubAdmin
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.rejoin import TakeOver
from watchword.api.conditions import is_true
from watchword.api.meta import ObjectKey, is_deleting, uid_of
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS, ROLES
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, ServerError, Unreachable
from watchword.registration.aws_irsa.options import MANAGED_ARN
from watchword.registration.grpc.driver import ANNOTATION as GRPC_ANNOTATION
from watchword.testing.builders import a_cluster

T = TypeVar("T")

TRY_AGAIN = 300.0  # seconds
HELP_AFTER = 2 * HOUR


@dataclass
class Administrator:
    """Acts on the hub as a person with every right; never gives up while the hub is down."""

    fleet: SimulatedFleet
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        link = Link("admin", Random(0))
        run = ProcessRun("admin", die=lambda: None)
        inner = self.fleet.hub.administrator().transport
        self.client = replayable_client(SimulatedTransport(inner, link, run, self.fleet.history))

    async def create_cluster(self, name: str, *, accepted: bool = False) -> None:
        """Create a cluster that the hub may accept by itself, or one that is accepted."""
        seconds = int(self.fleet.settings.lease.total_seconds())
        pair = self.fleet.members[name].eks_pair
        annotations = {} if pair is None else {MANAGED_ARN: str(pair.managed)}  # only a person may name it beforehand
        if self.fleet.members[name].profile.driver == "grpc":
            annotations = {GRPC_ANNOTATION: "true"}
        cluster = a_cluster(name, accepted=accepted, lease_seconds=seconds, annotations=annotations)
        await self.insist(lambda: self.client.create(MANAGED_CLUSTERS, cluster))

    async def accept(self, name: str, *, accepted: bool) -> None:
        """Accept or deny a cluster."""
        patch = {"spec": {"hubAcceptsClient": accepted}}
        await self.insist(lambda: self.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch))

    async def delete_cluster(self, name: str) -> str:
        """Delete a cluster; the hub takes its time. Returns its UID, empty when there was none."""
        uid = self._uid_of(name)
        await self.insist(lambda: self.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(name)))
        return uid

    async def create_again(self, name: str, deleted_uid: str) -> bool:
        """Create a cluster whose name was deleted, once the hub is done with the one before; False: it never was.

        Its agent may be faster, and introduce the cluster anew between two looks: then that one is accepted.
        """
        patience = self.fleet.elapsed + 7 * self.fleet.settings.lease  # five of them until its agent is given up
        while deleted_uid and self._uid_of(name) == deleted_uid:
            if self.fleet.elapsed > patience:
                return False
            await asyncio.sleep(TRY_AGAIN)
        await self.create_cluster(name, accepted=True)
        await self.accept(name, accepted=True)
        return True

    async def bring_back(self, name: str) -> bool:
        """Make it an accepted cluster again, after a deletion that is under way; False: that never ended."""
        found = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        return await self.create_again(name, uid_of(found) if found and is_deleting(found) else "")

    def _uid_of(self, name: str) -> str:
        found = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        return "" if found is None else uid_of(found)

    async def rejoin(self, name: str) -> None:
        """Let a cluster back in whose credential is lost, as `watchword rejoin --take-over` does."""
        hub_admin = HubAdmin(self.client, self.fleet.clock)
        terms = ApprovalTerms(requesters=frozenset(), anyone=True)
        try:
            await TakeOver(ClusterAcceptor(hub_admin, terms)).run(name, None)
        except (OperationRefused, NotReady, Conflict, ServerError, Unreachable) as early:
            self.fleet.history.note("admin", f"rejoin {name}: not yet: {early}")
        else:
            self.fleet.history.note("admin", f"rejoin {name}: done")

    async def agree_on_lease(self, name: str) -> None:
        """See to it that the cluster's lease is as long as the settings say."""
        cluster = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        seconds = int(self.fleet.settings.lease.total_seconds())
        if cluster is None or (cluster.get("spec") or {}).get("leaseDurationSeconds") == seconds:
            return
        patch = {"spec": {"leaseDurationSeconds": seconds}}
        await self.insist(lambda: self.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch))

    def is_accepted(self, name: str) -> bool:
        """Whether the hub says that it accepts a cluster."""
        found = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        return found is not None and not is_deleting(found) and is_true(found, ConditionType.HUB_ACCEPTED)

    async def insist(self, attempt: Callable[[], Awaitable[T]]) -> T | None:
        """Try until the hub answers; what is there already, or gone already, is well."""
        while True:
            try:
                return await attempt()
            except (AlreadyExists, NotFound):
                return None
            except (Unreachable, Conflict, ServerError):
                await asyncio.sleep(TRY_AGAIN)

    async def take_role(self, key: ObjectKey) -> bool:
        """Replace a role by one of another hand; return whether there was one."""
        if not await quietly(self.client.delete(ROLES, key)):
            return False
        return await quietly(self.client.create(ROLES, ROLES.manifest(key)))

    def is_stranded(self, name: str) -> bool:
        """Whether a cluster waits for a person: nothing disturbs it, and still it has no credential that is good."""
        is_calm = self.fleet.standing[name].is_calm(since=self.fleet.elapsed - HELP_AFTER)
        return is_calm and self.lacks_credential(name)

    def lacks_credential(self, name: str) -> bool:
        """Whether a cluster that registers by certificate has none that is good."""
        member = self.fleet.members[name]
        held = cluster_credential(member)
        return member.eks_pair is None and (held is None or held.expires_at <= self.fleet.now)


DEEDS: ContextVar[list[bool]] = ContextVar("deeds")
"""Whether what the incident of this task does came to anything, one by one; set by the fault injector."""


async def quietly(attempt: Awaitable[object]) -> bool:
    """Do something that may come to nothing: the thing is gone already, or the hub is down. Returns whether it did."""
    try:
        await attempt
    except KubeError:
        return note_deed(done=False)
    return note_deed(done=True)


def note_deed(*, done: bool) -> bool:
    """Tell the fault injector whether something came to be; an incident of which nothing did is not counted."""
    DEEDS.get([]).append(done)
    return done
