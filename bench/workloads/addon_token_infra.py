"""Add-ons of accepted clusters ask for the token driver → each has TokenInfrastructureReady=True."""

from __future__ import annotations

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import Cluster, Run, bounded
from bench.workloads.hub import an_accepted_cluster, an_addon_type, is_true, prepare_hub, register
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from watchword.testing.builders import a_namespace, an_addon

PARAMETERS = {"clusters": 50, "addons": 20, "settle": 120}
MADE = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)


async def run(one: Run) -> Result:
    """Everything exists before the clock starts but the status that names the driver."""
    hub = await one.cluster("hub")
    await prepare_hub(hub)
    clusters = [f"c{number:03d}" for number in range(one.parameters["clusters"])]
    addons = [f"a{number:03d}" for number in range(one.parameters["addons"])]
    pairs = {(cluster, addon) for cluster in clusters for addon in addons}
    await bounded(hub.client.create(CLUSTER_MANAGEMENT_ADDONS, an_addon_type(name)) for name in addons)
    await bounded(_make_cluster(hub, name) for name in clusters)
    await bounded(hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon(a, cluster=c)) for c, a in pairs)
    one.launch_all()
    await one.quiet(4.0)
    ready: set[tuple[str, str]] = set()

    def is_done(_: str, addon: Object) -> bool:
        if is_true(addon, "TokenInfrastructureReady"):
            ready.add((addon["metadata"]["namespace"], addon["metadata"]["name"]))
        return ready >= pairs

    async with FinishLine(hub.client, MANAGED_CLUSTER_ADDONS, is_done) as finish:
        trigger = [register(hub, c, a, kubeClient=_token_driver(c, a)) for c, a in sorted(pairs)]
        result = await one.measured(len(pairs), trigger, finish)
    for kind in MADE:
        found = await hub.client.list(kind, labels=f"{Label.TOKEN_INFRASTRUCTURE}=true")
        result.more[kind.plural] = len(found.items)
    return result


def _token_driver(cluster: str, addon: str) -> Object:
    return {"driver": "token", "subject": {"user": f"system:serviceaccount:{cluster}:{addon}-agent"}}


async def _make_cluster(hub: Cluster, name: str) -> None:
    await hub.client.create(MANAGED_CLUSTERS, an_accepted_cluster(name))
    accepted = {
        "type": "HubAcceptedManagedCluster",
        "status": "True",
        "reason": "HubClusterAdminAccepted",
        "message": "accepted",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [accepted]}}
    await hub.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch, subresource="status")
    await hub.client.create(NAMESPACES, a_namespace(name, labels={Label.CLUSTER_NAME: name}))
