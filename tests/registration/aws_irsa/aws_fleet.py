"""A hub whose clusters register by IAM, over an account in memory; agents are played by the tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.emulators.memory_aws import NAME, MemoryAws, MemoryRole, hub_catalog
from tests.helpers.fleet import FleetHarness

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.credentials.driver import Settings
from watchword.processes.hub import HubOptions, run_hub
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.registration.aws_irsa.options import HUB_ARN, MANAGED_ARN, MODE, PATTERNS, READY
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually, is_gone

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "fleet-hub")
SETTINGS = {HUB_ARN.flag: str(HUB)}


def arn_of(name: str, *, region: str = "eu-central-1", account: str = "444455556666") -> EksClusterArn:
    return EksClusterArn("aws", region, account, name)


@dataclass
class AwsFleet:
    """What a test does with a hub, its account and its clusters."""

    members: FleetHarness
    aws: MemoryAws = field(default_factory=lambda: MemoryAws(HUB.account))

    def start_hub(
        self, settings: Settings = SETTINGS, *, drivers: tuple[str, ...] = (NAME,), auto: bool = False
    ) -> None:
        """Run the hub's controllers."""
        options = HubOptions(
            drivers=drivers,
            catalog=hub_catalog(self.aws),
            settings=settings,
            auto_approval=auto,
            elect=False,
            install=False,
        )
        hub = run_hub(self.members.plane.fresh_client(), options, clock=self.members.plane.clock, random=Random(1))
        self.members.tasks.append(asyncio.create_task(hub))

    async def ask(self, managed: EksClusterArn, *, accepted: bool = False, name: str = "", **notes: str) -> str:
        """Create the ManagedCluster as its agent would; return its name."""
        name = name or self.members.name()
        annotations = notes or {MANAGED_ARN: str(managed)}
        manifest = a_cluster(name, accepted=accepted, annotations=annotations)
        await self.members.client.create(MANAGED_CLUSTERS, manifest)
        return name

    async def accepted(self, eks_name: str = "edge-1") -> ClusterIdentity:
        """Return the identity of a cluster that the hub has accepted."""
        managed = arn_of(eks_name)
        name = await self.ask(managed, accepted=True)
        found = await self.members.condition(name, ConditionType.HUB_ACCEPTED, "True")
        return ClusterIdentity(name, found["metadata"]["uid"], HUB, managed)

    async def reported(self, name: str, reason: str, status: str = "False", type_: str = READY) -> Object:
        """Wait for a condition with this reason, and return the row of it."""
        found = await self.members.condition(name, type_, status, reason)
        return next(row for row in found["status"]["conditions"] if row["type"] == type_)

    async def annotate(self, name: str, **annotations: Any) -> None:
        """Change annotations as the cluster's agent may."""
        patch = {"metadata": {"annotations": annotations}}
        await self.members.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)

    async def is_gone(self, name: str) -> None:
        """Wait until the ManagedCluster is gone."""
        await eventually(self.members.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), is_gone)

    def role(self, identity: ClusterIdentity) -> MemoryRole:
        """Return a cluster's role as IAM has it."""
        return self.aws.roles[identity.role.name]

    def is_in_aws(self, identity: ClusterIdentity) -> bool:
        """Whether the account has exactly the role and the access entry of a cluster."""
        role, wanted = self.aws.roles.get(identity.role.name), identity.role
        if role is None or role.policies != {wanted.name: wanted.access}:
            return False
        entry = self.aws.entries.get(wanted.arn, {})
        mapped = (entry.get("kubernetesGroups"), entry.get("username"))
        return (role.trust, role.tags) == (wanted.trust, dict(wanted.tags)) and mapped == (
            [f"open-cluster-management:{identity.cluster}"],
            identity.user,
        )


def in_mode(mode: str) -> Settings:
    """Return the settings of a hub whose identities are made that way."""
    return {**SETTINGS, MODE.flag: mode}


def with_pattern(pattern: str) -> Settings:
    """Return the settings of a hub that accepts ARNs by a pattern."""
    return {**SETTINGS, PATTERNS.flag: pattern}
