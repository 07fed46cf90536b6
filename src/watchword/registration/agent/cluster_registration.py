"""Creates the ManagedCluster of this cluster on the hub, and corrects the driver that it claims."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.limits import DEFAULT_LEASE_SECONDS
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import AGENT_ANNOTATION_PREFIX, Annotation, Label
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden


class NameTaken(Exception):
    """The hub knows another cluster, or another driver, under this name; the message contains the next step."""


class RegistrationRequest(Struct, frozen=True):
    """What this cluster registers with on a hub."""

    name: str
    uid: str  # of this cluster's kube-system namespace: the same on every hub it joins
    client_configs: Sequence[Object] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claim: Mapping[str, str | None] = field(default_factory=dict)  # of the driver; None: the claim of another driver


def cluster_manifest(registration: RegistrationRequest) -> Object:
    """Return the ManagedCluster to create. It never accepts itself, and carries only the agent's own annotations."""
    annotations = {
        name: value
        for name, value in registration.annotations.items()
        if name.startswith(AGENT_ANNOTATION_PREFIX) and name not in registration.claim
    }
    annotations |= {name: value for name, value in registration.claim.items() if value is not None}
    annotations[Annotation.CLUSTER_UID] = registration.uid
    metadata: Object = {"annotations": annotations}
    labels = {name: value for name, value in registration.labels.items() if name != Label.CLUSTER_NAME}
    if labels:
        metadata["labels"] = labels
    spec: Object = {"hubAcceptsClient": False, "leaseDurationSeconds": DEFAULT_LEASE_SECONDS}
    if registration.client_configs:
        spec["managedClusterClientConfigs"] = list(registration.client_configs)
    return MANAGED_CLUSTERS.manifest(ObjectKey.cluster(registration.name), metadata=metadata, spec=spec)


async def register_cluster(hub: Client, registration: RegistrationRequest) -> Object:
    """Create the ManagedCluster, or recognise it as one's own; raise `NameTaken` when it is another's."""
    try:
        return await hub.create(MANAGED_CLUSTERS, cluster_manifest(registration))
    except AlreadyExists:
        found = await hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(registration.name))
    objection = validate_cluster_ownership(Cluster.read(found), registration)
    if objection:
        raise NameTaken(objection)
    return found


async def correct_driver_claim(hub: Client, found: Object, registration: RegistrationRequest) -> None:
    """Let the ManagedCluster claim the driver of this agent; `NameTaken` when the hub does not let it."""
    present = annotations_of(found)
    changed = {name: value for name, value in registration.claim.items() if present.get(name) != value}
    if not changed:
        return
    merged = {name: value for name, value in {**present, **registration.claim}.items() if value is not None}
    try:
        await hub.update(MANAGED_CLUSTERS, {**found, "metadata": {**found["metadata"], "annotations": merged}})
    except Forbidden as refusal:  # before it is accepted, a cluster may not change what it registered with
        rows = " ".join(f"{name}-" if value is None else f"{name}={value}" for name, value in changed.items())
        raise NameTaken(
            f"the ManagedCluster names another driver, or another identity, than this agent has: correct it on the "
            f"hub with `kubectl annotate managedcluster {registration.name} --overwrite {rows}`"
        ) from refusal


def validate_cluster_ownership(found: Cluster, registration: RegistrationRequest) -> str | None:
    """Return why the cluster on the hub is not this one, or None when it is, or when the hub cannot tell.

    A hub's administrator may create the cluster beforehand; it carries no identity then, and the first to come owns it.
    """
    if found.claimed_uid in ("", registration.uid):
        return None
    return (
        f"the hub already knows another cluster named {found.name} (its identity is {found.claimed_uid}, "
        f"this cluster's is {registration.uid}): join under another name"
    )
