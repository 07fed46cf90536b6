"""What a person does with AWS credentials of their own: make an identity at `accept`, delete it after `deny`."""

from __future__ import annotations

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.registration.aws_irsa.aws_api import AwsApi, LazyAwsApi
from watchword.registration.aws_irsa.errors import RoleTaken, StillAccepted
from watchword.registration.aws_irsa.hub import make_identities
from watchword.registration.aws_irsa.identity import ClusterIdentity, IdentityPhase, IdentityRecord, IdentityRecords
from watchword.registration.aws_irsa.options import IdentityMode, hub_arn, identity_mode, read_claimed_arn, role_tags
from watchword.registration.driver import AcceptanceContext


async def prepare_acceptance(context: AcceptanceContext, *, api: AwsApi | None = None) -> None:
    """Make the identity of a cluster before it is accepted, on a hub that leaves this to people.

    Raises `AwsError`; then the cluster is not accepted. Made again after a failure, it goes on where it stopped.
    """
    if identity_mode(context.settings) is not IdentityMode.ACCEPT:
        return
    hub, cluster = hub_arn(context.settings), Cluster.read(context.cluster)
    managed = read_claimed_arn(cluster.annotations, hub)
    identity = ClusterIdentity(cluster.name, cluster.uid, hub, managed)
    if context.dry_run:
        return
    records = IdentityRecords(context.client)
    record = await records.create(identity)
    validate_not_revoking(record)
    connection, tags = api or LazyAwsApi(hub.region), role_tags(context.settings)
    identities = make_identities(context.client, hub, IdentityMode.ACCEPT, connection, tags)
    if record.phase is IdentityPhase.READY:
        await identities.repair(record)
    else:
        await records.set_phase(record, IdentityPhase.READY, await identities.create(record))


def validate_not_revoking(record: IdentityRecord) -> None:
    """Raise `RoleTaken` when the role of an earlier acceptance is not deleted yet."""
    if record.phase is IdentityPhase.REVOKING:
        raise RoleTaken(
            f"role {record.identity.role.name} of an earlier acceptance is not deleted yet: "
            f"run `watchword aws revoke {record.identity.cluster}`, then accept the cluster"
        )


async def revoke_identities(client: Client, cluster: str, *, api: AwsApi | None = None) -> list[str]:
    """Delete the mappings and roles of a cluster that has no rights any more; return the ARNs of the roles.

    Raises `StillAccepted` before the hub has taken the rights, and `AwsError`.
    """
    records = IdentityRecords(client)
    found = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    known = await records.list(cluster)
    for record in known:
        validate_revoked(record, found)
    for record in known:
        hub = record.identity.hub
        await make_identities(client, hub, IdentityMode.ACCEPT, api or LazyAwsApi(hub.region), {}).delete(record)
        await records.delete(record)
    return [record.identity.role.arn for record in known]


def validate_revoked(record: IdentityRecord, cluster: Object | None) -> None:
    """Raise `StillAccepted` while the cluster of a record may have rights on the hub."""
    name = record.identity.cluster
    is_own = cluster is not None and Cluster.read(cluster).uid == record.identity.uid
    if is_own and record.phase is not IdentityPhase.REVOKING:
        raise StillAccepted(
            f"cluster {name} has rights on the hub: take them first with `watchword deny --clusters {name} --wait`"
        )
