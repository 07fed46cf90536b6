"""The hub's side: an accepted cluster gets an IAM role of its own, mapped to its group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from random import Random

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.registration.aws_irsa.access_entries import AccessEntries
from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.aws_api import AwsApi, PacedAwsApi
from watchword.registration.aws_irsa.aws_auth import AwsAuthConfigMap
from watchword.registration.aws_irsa.claims import read_claimed_arn
from watchword.registration.aws_irsa.connection import LazyAwsApi
from watchword.registration.aws_irsa.errors import InvalidName, RoleTaken
from watchword.registration.aws_irsa.hub_options import (
    HUB_OPTIONS,
    IdentityMode,
    hub_arn,
    identity_mode,
    is_allowed_arn,
    role_tags,
)
from watchword.registration.aws_irsa.iam import RoleWriter
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.registration.aws_irsa.identity_events import IdentityEventReconciler
from watchword.registration.aws_irsa.identity_reconciler import AwsIdentities, IdentityReconciler
from watchword.registration.aws_irsa.identity_record import (
    IdentityPhase,
    IdentityRecord,
    IdentityRecords,
    cluster_of_record,
    records_of,
)
from watchword.registration.aws_irsa.role_mapping import RoleMappings
from watchword.registration.errors import NotGranted
from watchword.registration.interface import HubContext
from watchword.runtime.reconcile import ControllerSpec, Trigger
from watchword.runtime.status import StatusWriter

__all__ = ["HUB_OPTIONS", "AwsIrsaHubDriver", "make_hub_driver", "make_identities"]

WORKERS = 16
DEADLINE = timedelta(minutes=10)  # an identity may wait for its turn among hundreds


class AwsIrsaHubDriver(Struct, frozen=True):
    """Records the identity of an accepted cluster; its reconciler makes the identity in AWS."""

    context: HubContext
    hub: EksClusterArn
    mode: IdentityMode
    records: IdentityRecords
    reconciler: IdentityReconciler

    async def grant(self, cluster: Cluster) -> None:
        """Record what the cluster claims at its acceptance; `NotGranted` until its identity is ready."""
        known = records_of(self.context.cache, cluster.name)
        earlier = [record for record in known if record.identity.uid != cluster.uid]
        if earlier:
            raise NotGranted(
                "EarlierIdentityGoing",
                f"role {earlier[0].identity.role.name} of an earlier cluster {cluster.name} is being deleted",
            )
        record = known[0] if known else await self._record(cluster)
        if record.phase is IdentityPhase.REVOKING:
            raise NotGranted("EarlierIdentityGoing", f"role {record.identity.role.name} is being deleted")
        if record.phase is IdentityPhase.CREATING:
            raise NotGranted("AwsIdentityPending", f"role {record.identity.role.name} is being created")

    async def _record(self, cluster: Cluster) -> IdentityRecord:
        try:
            managed = read_claimed_arn(cluster.annotations, self.hub)
            identity = ClusterIdentity(cluster.name, cluster.uid, self.hub, managed)
        except InvalidName as objection:
            raise NotGranted("InvalidManagedClusterArn", str(objection)) from objection
        if self.mode is IdentityMode.ACCEPT:
            raise NotGranted(
                "AwsIdentityMissing",
                f"role {identity.role.name} has to be created with your AWS credentials: "
                f"run `watchword accept --clusters {cluster.name}`",
            )
        try:
            return await self.records.create(identity)
        except RoleTaken as objection:
            raise NotGranted("RoleTaken", str(objection)) from objection

    async def revoke(self, cluster: Cluster) -> None:
        """Note that mapping and role have to go, now that the cluster has no rights."""
        for record in records_of(self.context.cache, cluster.name):
            if record.phase is not IdentityPhase.REVOKING:
                await self.records.set_phase(record, IdentityPhase.REVOKING)

    @property
    def removal_trigger(self) -> Trigger:
        """The records of identities: each goes when AWS has confirmed the deletion."""
        return Trigger(LEASES, cluster_of_record)

    def remaining(self, cluster: Cluster) -> list[str]:
        """Return the roles that AWS has not confirmed as deleted."""
        return [f"IAM role {record.identity.role.arn}" for record in records_of(self.context.cache, cluster.name)]

    def is_auto_accepted(self, cluster: Cluster) -> bool:
        """Whether a pattern matches the whole ARN that the cluster claims; its role must prove the claim."""
        try:
            claimed = read_claimed_arn(cluster.annotations, self.hub)
        except InvalidName:
            return False
        return self.context.auto_approval and is_allowed_arn(claimed, self.context.settings)

    def controllers(self) -> Iterable[ControllerSpec]:
        """Return the controller of the identities, and the one that tells about them."""
        yield ControllerSpec(
            "aws-identity",
            MANAGED_CLUSTERS,
            self.reconciler,
            (self.removal_trigger,),
            workers=WORKERS,
            deadline=DEADLINE,
        )
        telling = IdentityEventReconciler(self.context.cache, self.context.events, self.context.clock)
        yield ControllerSpec("aws-identity-events", LEASES, telling, workers=1)


def make_hub_driver(context: HubContext, *, api: AwsApi | None = None) -> AwsIrsaHubDriver:
    """Return the driver, ready to use; AWS is asked through boto3 unless another port is given."""
    hub, mode = hub_arn(context.settings), identity_mode(context.settings)
    random = Random(str(hub))  # noqa: S311 - spreads requests, guards nothing
    tags = {} if mode is IdentityMode.EXTERNAL else role_tags(context.settings)  # what is made outside has its own
    paced = PacedAwsApi(api or LazyAwsApi(hub.region), random)
    identities = make_identities(context.client, hub, mode, paced, tags)
    records = IdentityRecords(context.client)
    reconciler = IdentityReconciler(
        context.cache,
        records,
        identities,
        StatusWriter(context.client, context.clock, context.cache),
        context.events,
        context.clock,
        random,
    )
    return AwsIrsaHubDriver(context, hub, mode, records, reconciler)


def make_identities(
    client: Client, hub: EksClusterArn, mode: IdentityMode, api: AwsApi, tags: Mapping[str, str]
) -> AwsIdentities:
    """Return what makes and deletes the identities of a hub's clusters; roles get these tags, too."""
    random = Random(str(hub))  # noqa: S311 - spreads requests, guards nothing
    mappings = RoleMappings(AccessEntries(api, hub, random), AwsAuthConfigMap(client, random))
    return AwsIdentities(RoleWriter(api, random, tags), mappings, mode)
