"""What several workloads need on a hub: kinds, namespaces, clusters, add-ons."""

from __future__ import annotations

from pathlib import Path

from bench.rig.run import Cluster, bounded
from watchword.api.conditions import find_condition
from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, AGENT_NAMESPACE, HUB_NAMESPACE, Label
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    NAMESPACES,
)
from watchword.kube.client import Client
from watchword.testing.builders import a_cluster, a_cluster_role_binding, a_namespace
from watchword.testing.eventually import eventually

BOOTSTRAP_USER = "rig:bootstrap"
# What an admission webhook of the hub would add; none runs here.
DEFAULT_SET = {Label.CLUSTER_SET: "default"}


async def prepare_hub(hub: Cluster) -> None:
    """Install the hub's kinds and its namespace."""
    await install_hub(hub.client)


async def install_hub(client: Client) -> None:
    """Install the hub's kinds and its namespace, through any client."""
    await bounded(_install(client, definition) for definition in HUB_CRDS)
    await client.create(NAMESPACES, a_namespace(HUB_NAMESPACE))


async def prepare_managed(spoke: Cluster) -> None:
    """Install a managed cluster's kinds and its namespaces."""
    await bounded(_install(spoke.client, definition) for definition in MANAGED_CRDS)
    for name in (ADDON_NAMESPACE, AGENT_NAMESPACE):
        await spoke.client.create(NAMESPACES, a_namespace(name))


async def allow_bootstrap(hub: Cluster) -> str:
    """Let the bootstrap user ask to join, no more; return the path of its kubeconfig."""
    rules = [
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "list", "watch"],
        },
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclusters"],
            "verbs": ["create", "get", "list", "watch", "update"],
        },
    ]
    role = ObjectKey.cluster("rig-bootstrap")
    await hub.client.create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(role, rules=rules))
    binding = a_cluster_role_binding(role.name, role=role.name, users=[BOOTSTRAP_USER])
    await hub.client.create(CLUSTER_ROLE_BINDINGS, binding)
    return str(bootstrap_kubeconfig(hub))


def bootstrap_kubeconfig(hub: Cluster) -> Path:
    """Return the path of the bootstrap user's kubeconfig."""
    return hub.plane.credentials.kubeconfig(hub.plane.server, BOOTSTRAP_USER)


def an_accepted_cluster(name: str) -> Object:
    """Return a ManagedCluster as the hub sees it after admission."""
    return a_cluster(name, accepted=True, labels=DEFAULT_SET)


def an_addon_type(name: str) -> Object:
    """Return a ClusterManagementAddOn."""
    return CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name), spec={"installStrategy": {"type": "Manual"}})


async def register(hub: Cluster, cluster: str, addon: str, **registration: Object) -> None:
    """Write the registration of an add-on into its status, as its manager or agent does."""
    status = {"registrations": [{"type": "kubeClient", **registration}]}
    key = ObjectKey(cluster, addon)
    await hub.client.patch(MANAGED_CLUSTER_ADDONS, key, {"status": status}, subresource="status")


def is_true(obj: Object, condition: str) -> bool:
    """Whether a condition of the object is True."""
    found = find_condition(obj, condition)
    return found is not None and found.status == "True"


async def _install(client: Client, definition: Object) -> None:
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    key = ObjectKey.of(definition)
    await eventually(
        client,
        CUSTOM_RESOURCE_DEFINITIONS,
        key,
        lambda found: bool(found) and is_true(found or {}, "Established"),
    )
