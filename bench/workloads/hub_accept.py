"""Many ManagedClusters with hubAcceptsClient=true are created → all are accepted."""

from __future__ import annotations

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import Run
from bench.workloads.hub import an_accepted_cluster, is_true, prepare_hub
from watchword.api.meta import Object
from watchword.api.names import Label
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
)

PARAMETERS = {"n": 300, "settle": 120}
MADE = (NAMESPACES, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, LEASES)


async def run(one: Run) -> Result:
    """Count the namespaces, roles, bindings and leases afterwards: being quick must not mean leaving things out."""
    hub = await one.cluster("hub")
    await prepare_hub(hub)
    one.launch_all()
    await one.quiet()
    names = {f"c{number:05d}" for number in range(one.parameters["n"])}
    accepted: set[str] = set()

    def is_done(_: str, cluster: Object) -> bool:
        if is_true(cluster, "HubAcceptedManagedCluster"):
            accepted.add(cluster["metadata"]["name"])
        return accepted >= names

    async with FinishLine(hub.client, MANAGED_CLUSTERS, is_done) as finish:
        trigger = [hub.client.create(MANAGED_CLUSTERS, an_accepted_cluster(name)) for name in sorted(names)]
        result = await one.measured(len(names), trigger, finish)
    for kind in MADE:
        found = await hub.client.list(kind, labels=Label.CLUSTER_NAME)
        result.more[kind.plural] = len(found.items)
    return result
