"""What a cluster needs to join a hub, as `join` applies it, and how to see that it has."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from watchword.admin.apply import apply_all
from watchword.admin.bootstrap_access import BootstrapAccess
from watchword.admin.errors import OperationRefused
from watchword.admin.operator_deployment import FIELD_MANAGER as DEPLOYER
from watchword.admin.operator_deployment import operator_objects
from watchword.admin.wait import ObjectWaiter
from watchword.api.conditions import find_condition, is_true
from watchword.api.crds import MANAGED_CRDS
from watchword.api.meta import Manifest, Object, ObjectKey, uid_of
from watchword.api.names import AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET, ConditionType
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, KLUSTERLETS, MANAGED_CLUSTERS, NAMESPACES, SECRETS
from watchword.drivers.catalog import CATALOG, Catalog
from watchword.drivers.options import Settings, Side, settings_to_spec
from watchword.kube.client import Client
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.operator.rendering import IMAGE

FIELD_MANAGER = "watchword-join"
KLUSTERLET = "klusterlet"
KUBECONFIG_KEY = "kubeconfig"


@dataclass(frozen=True, slots=True)
class ClusterMembership:
    """How this cluster belongs to one hub."""

    cluster: str
    klusterlet: str = KLUSTERLET  # another one for each further hub
    namespace: str = AGENT_NAMESPACE
    image: str = IMAGE
    registration_auth: str = ""  # empty: the default driver
    addon_auth: str = ""
    settings: Settings = field(default_factory=dict)  # of the drivers
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)


def klusterlet_manifest(membership: ClusterMembership, catalog: Catalog = CATALOG) -> Object:
    """Return the Klusterlet that says so to the operator; what is unset is left to the agent's defaults."""
    gates = [{"feature": f, "mode": "Enable" if on else "Disable"} for f, on in sorted(membership.gates.items())]
    drivers = settings_to_spec(catalog.options(Side.CLUSTER), membership.settings)
    cluster = {"authType": catalog.cluster_driver(membership.registration_auth)}
    addon = {"authType": membership.addon_auth} if membership.addon_auth else {}
    registration: Object = {
        **drivers,
        "registrationDriver": {**cluster, **drivers.get("registrationDriver", {})},
        "addOnKubeClientRegistrationDriver": {**addon, **drivers.get("addOnKubeClientRegistrationDriver", {})},
        "clusterLabels": dict(membership.labels),
        "clusterAnnotations": dict(membership.annotations),
        "featureGates": gates,
    }
    spec = {
        "clusterName": membership.cluster,
        "namespace": membership.namespace,
        "imagePullSpec": membership.image,
        "deployOption": {"mode": "Singleton"},
        "registrationConfiguration": {name: value for name, value in registration.items() if value},
    }
    return KLUSTERLETS.manifest(ObjectKey.cluster(membership.klusterlet), spec=spec)


def bootstrap_secret(namespace: str, access: BootstrapAccess) -> Object:
    """Return the Secret by which the agent first reaches the hub."""
    key = ObjectKey(namespace, BOOTSTRAP_KUBECONFIG_SECRET)
    encoded = base64.b64encode(dump_kubeconfig(access.kubeconfig)).decode()
    return SECRETS.manifest(key, type="Opaque", data={KUBECONFIG_KEY: encoded})


def prerequisite_objects(membership: ClusterMembership) -> list[Manifest]:
    """Return what a membership stands on; with an operator, that brings it along."""
    return [
        *((CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in MANAGED_CRDS),
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(membership.namespace))),
    ]


def membership_objects(membership: ClusterMembership, access: BootstrapAccess) -> list[Manifest]:
    """Return what makes the membership, in an order in which it can be applied."""
    return [
        (SECRETS, bootstrap_secret(membership.namespace, access)),
        (KLUSTERLETS, klusterlet_manifest(membership)),
    ]


async def join(
    client: Client,
    membership: ClusterMembership,
    access: BootstrapAccess,
    *,
    deploy: bool = True,
    dry_run: bool = False,
) -> list[str]:
    """Apply every object; `OperationRefused` when this cluster already belongs to a hub under another name."""
    present = await client.find(KLUSTERLETS, ObjectKey.cluster(membership.klusterlet))
    known_as = str(((present or {}).get("spec") or {}).get("clusterName") or membership.cluster)
    if known_as != membership.cluster:
        raise OperationRefused(
            f"this cluster joined as {known_as}: run `watchword unjoin --cluster-name {known_as}` first, or give "
            "--klusterlet-name and --namespace to join a second hub"
        )
    if deploy:
        rows, manager = await operator_objects(client, membership.image, agent_namespace=membership.namespace), DEPLOYER
    else:
        rows, manager = prerequisite_objects(membership), FIELD_MANAGER
    applied = await apply_all(client, rows, manager=manager, dry_run=dry_run)
    own = membership_objects(membership, access)
    return applied + await apply_all(client, own, manager=FIELD_MANAGER, dry_run=dry_run)


async def cluster_uid(client: Client) -> str:
    """Return what distinguishes this cluster from every other, whatever it is called."""
    return uid_of(await client.get(NAMESPACES, ObjectKey.cluster("kube-system")))


def validate_joined(found: Object | None) -> str:
    """Say what a cluster still lacks to have joined; empty when it has."""
    if found is None:
        return "the agent has not introduced itself to the hub yet"
    name = found["metadata"]["name"]
    accepted = find_condition(found, ConditionType.HUB_ACCEPTED)
    if not (found.get("spec") or {}).get("hubAcceptsClient"):
        return f"waiting for the hub's administrator: watchword accept --clusters {name}"
    if accepted is None or accepted.status != "True":
        return f"accepted; the hub prepares for {name}" + (f" ({accepted.message})" if accepted else "")
    return "" if is_true(found, ConditionType.JOINED) else "accepted; the agent takes up its work"


async def await_joined(waiter: ObjectWaiter, cluster: str) -> Object:
    """Return the ManagedCluster once it has joined; `NotReady` otherwise."""
    advice = "see `watchword clusters show` on the hub, and the agent's log on this cluster"
    return await waiter.until(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), validate_joined, advice=advice)
