"""Finds objects of a hub by name; one error says that none exists."""

from watchword.admin.errors import NotFoundOnHub
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    MANIFEST_WORKS,
)
from watchword.health.hub_reader import require_hub
from watchword.kube.client import Client

NOUNS = {
    MANAGED_CLUSTERS: ("cluster", "watchword clusters"),
    MANAGED_CLUSTER_ADDONS: ("add-on", "watchword addon list"),
    MANAGED_SERVICE_ACCOUNTS: ("account", "watchword serviceaccount list"),
    MANAGED_CLUSTER_SETS: ("cluster set", "watchword clusterset list"),
    MANIFEST_WORKS: ("work", "watchword work list"),
}
"""What commands call a kind, and which of them lists its objects."""


async def get_named(client: Client, resource: Resource, key: ObjectKey) -> Object:
    """Return what a person named; `NotFoundOnHub` when the hub has nothing of that name."""
    found = await client.find(resource, key)
    if found is None:
        raise await missing(client, resource, key)
    return found


async def missing(client: Client, resource: Resource, key: ObjectKey) -> NotFoundOnHub:
    """Return what to raise where nothing of that name is; `OperationRefused` when the cluster is not a hub."""
    await require_hub(client)
    noun, command = NOUNS[resource]
    where = f" in namespace {key.namespace}" if resource is MANAGED_SERVICE_ACCOUNTS else f" on cluster {key.namespace}"
    return NotFoundOnHub(f"there is no {noun} {key.name}{where if key.namespace else ''}: `{command}` lists all")


def no_namespace_of(cluster: str) -> NotFoundOnHub:
    """Return what to raise where a cluster has no namespace: every accepted one has."""
    return NotFoundOnHub(f"there is no cluster {cluster}, or it is not accepted: `watchword clusters` lists all")
