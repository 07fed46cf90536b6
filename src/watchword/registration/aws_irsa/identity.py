"""What an accepted cluster is in AWS, and the Lease that records for which cluster a role was made."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import HUB_NAMESPACE, Label, cloud_agent_user, cluster_group, cluster_group_plain
from watchword.api.resources import LEASES
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.registration.aws_irsa.documents import EksClusterArn, IamRole, RoleTags, hub_role
from watchword.registration.aws_irsa.errors import InvalidName, RoleTaken
from watchword.runtime.ensure import delete_object, with_preconditions
from watchword.runtime.reconcile import Reader


class ClusterIdentity(Struct, frozen=True):
    """A ManagedCluster as AWS knows it, recorded when it was accepted; later annotations do not change it."""

    cluster: str
    uid: str  # of the ManagedCluster
    hub: EksClusterArn
    managed: EksClusterArn

    @property
    def role(self) -> IamRole:
        return hub_role(self.hub, self.managed)

    @property
    def identifier(self) -> str:
        """The md5 in the name of the role; two clusters with the same one cannot both be accepted."""
        return RoleTags.of(self.hub, self.managed).identifier

    @property
    def user(self) -> str:
        """The user name of requests with this role; with a prefix, so that it is no name of a person."""
        return cloud_agent_user(self.cluster)

    @property
    def entry_groups(self) -> tuple[str, ...]:
        """The groups in an access entry: EKS refuses those that begin with `system:`."""
        return (cluster_group_plain(self.cluster),)

    @property
    def config_map_entry(self) -> Mapping[str, object]:
        """The item of `mapRoles` in `aws-auth`, with the group of the design."""
        return {"rolearn": self.role.arn, "username": self.user, "groups": [cluster_group(self.cluster)]}


PREFIX = "aws-role-"
HUB_ARN = "aws.watchword.dev/hub-cluster-arn"
MANAGED_ARN = "aws.watchword.dev/managed-cluster-arn"
PHASE = "aws.watchword.dev/phase"
MAPPED_BY = "aws.watchword.dev/mapped-by"


class IdentityPhase(StrEnum):
    """How far the identity of a cluster is."""

    CREATING = "creating"
    READY = "ready"  # role and mapping were seen as they should be
    REVOKING = "revoking"  # the rights on the hub are gone; mapping and role follow


class IdentityRecord(Struct, frozen=True):
    """One record: the identity as it was accepted, and how far it is."""

    identity: ClusterIdentity
    phase: IdentityPhase
    mapped_by: str = ""  # empty until the role was mapped

    @property
    def key(self) -> ObjectKey:
        return record_key(self.identity)

    def manifest(self) -> Object:
        identity = self.identity
        notes = {
            HUB_ARN: str(identity.hub),
            MANAGED_ARN: str(identity.managed),
            PHASE: str(self.phase),
            MAPPED_BY: self.mapped_by,
        }
        metadata = {"labels": {Label.CLUSTER_NAME: identity.cluster}, "annotations": notes}
        return LEASES.manifest(self.key, metadata=metadata, spec={"holderIdentity": identity.uid})


def record_key(identity: ClusterIdentity) -> ObjectKey:
    return ObjectKey(HUB_NAMESPACE, PREFIX + identity.identifier)


def is_record(lease: Object) -> bool:
    metadata = lease["metadata"]
    return metadata.get("namespace") == HUB_NAMESPACE and str(metadata["name"]).startswith(PREFIX)


def read_record(lease: Object) -> IdentityRecord | None:
    """Return what a Lease records; None when it is another one, or was changed so that it contradicts its name."""
    notes = annotations_of(lease)
    if not is_record(lease):
        return None
    try:
        identity = ClusterIdentity(
            labels_of(lease).get(Label.CLUSTER_NAME, ""),
            str((lease.get("spec") or {}).get("holderIdentity") or ""),
            EksClusterArn.parse(notes.get(HUB_ARN, "")),
            EksClusterArn.parse(notes.get(MANAGED_ARN, "")),
        )
        record = IdentityRecord(identity, IdentityPhase(notes.get(PHASE, "")), notes.get(MAPPED_BY, ""))
    except (InvalidName, ValueError):
        return None
    return record if ObjectKey.of(lease) == record.key and identity.cluster else None


def records_of(reader: Reader, cluster: str) -> list[IdentityRecord]:
    labels = f"{Label.CLUSTER_NAME}={cluster}"
    found = (read_record(lease) for lease in reader.list(LEASES, namespace=HUB_NAMESPACE, labels=labels))
    return [record for record in found if record is not None]


class IdentityRecords(Struct, frozen=True):
    """Writes records; each change is valid only for the phase that was read."""

    client: Client

    async def create(self, identity: ClusterIdentity, phase: IdentityPhase = IdentityPhase.CREATING) -> IdentityRecord:
        """Record an identity and return it; `RoleTaken` when its role is on record for another cluster."""
        record = IdentityRecord(identity, phase)
        try:
            await self.client.create(LEASES, record.manifest())
        except AlreadyExists:
            known = read_record(await self.client.get(LEASES, record.key))
            return require_owner(known, identity)
        return record

    async def set_phase(self, record: IdentityRecord, phase: IdentityPhase, mapped_by: str = "") -> None:
        """Note how far the identity is; nothing when the record is gone, or has another phase meanwhile."""
        lease = await self.client.find(LEASES, record.key)
        if lease is None or read_record(lease) != record:
            return
        notes = {PHASE: str(phase), MAPPED_BY: mapped_by or record.mapped_by}
        patch = with_preconditions(lease, {"metadata": {"annotations": notes}})
        with suppress(NotFound):
            await self.client.patch(LEASES, record.key, patch)

    async def list(self, cluster: str) -> Sequence[IdentityRecord]:
        labels = f"{Label.CLUSTER_NAME}={cluster}"
        found = await self.client.list(LEASES, namespace=HUB_NAMESPACE, labels=labels)
        return [record for record in map(read_record, found.items) if record is not None]

    async def delete(self, record: IdentityRecord) -> None:
        """Remove a record: its role may be given to another cluster from then on."""
        lease = await self.client.find(LEASES, record.key)
        if lease is not None and read_record(lease) == record:
            await delete_object(self.client, LEASES, lease)


def require_owner(known: IdentityRecord | None, identity: ClusterIdentity) -> IdentityRecord:
    """Return what is on record for a role; `RoleTaken` unless it is this very identity."""
    if known is None:
        raise RoleTaken(
            f"Lease {record_key(identity)} cannot be read: something else than the hub wrote it; "
            "find out which, then delete the Lease"
        )
    if known.identity != identity:
        raise RoleTaken(
            f"role {identity.role.name} belongs to cluster {known.identity.cluster}, which is "
            f"{known.identity.managed}: a role serves one cluster; deny the one that is not right"
        )
    return known


def cluster_of_record(lease: Object) -> list[ObjectKey]:
    name = labels_of(lease).get(Label.CLUSTER_NAME, "")
    return [ObjectKey.cluster(name)] if name and is_record(lease) else []
