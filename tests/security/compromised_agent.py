"""What an attacker with the credential of one cluster's agent can do."""

from __future__ import annotations

from typing import Any

from tests.helpers.fleet import AGENTS_NAMESPACE, FleetHarness, transport_with

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.kube.client import Client


async def taken_over(fleet: FleetHarness, cluster: str) -> Client:
    """Return a client with the real credential of a cluster's agent."""
    data = decode_data(await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{cluster}")))
    return fleet.plane.adopt(Client(transport_with(fleet.plane, data["tls.crt"], data["tls.key"])))


async def forge_condition(agent: Client, cluster: str, type_: str, status: str) -> None:
    """Write a condition into the cluster's own status, which its agent may."""
    found = await agent.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    rows = [{**row, "status": status} if row["type"] == type_ else row for row in conditions_of(found)]
    patch: Object = {"status": {"conditions": rows}}
    await agent.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), patch, subresource="status")


async def forge_metadata(agent: Client, cluster: str, **metadata: Any) -> Object:
    """Replace fields of the cluster's own metadata, which its agent may."""
    found = await agent.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    return await agent.update(MANAGED_CLUSTERS, {**found, "metadata": {**found["metadata"], **metadata}})
