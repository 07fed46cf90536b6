"""Plans the revocation of a cluster: the hub takes its rights away."""

from __future__ import annotations

from watchword.admin.deny import deny
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.hub_admin import HubAdmin
from watchword.admin.revoke.bound_access import find_access_probes
from watchword.admin.revoke.revocation import Revocation, RevocationContext, RevocationTarget
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import registration_binding, work_binding
from watchword.api.resources import MANAGED_CLUSTERS, ROLE_BINDINGS
from watchword.kube.client import Client

CONSEQUENCE = (
    "the ManagedCluster stays; its credential has no rights until it is accepted again. To accept another cluster "
    "under this name, delete the ManagedCluster first: then the old certificate gets no rights"
)


async def plan_cluster(context: RevocationContext, name: str) -> Revocation:
    """Plan to deny a cluster; whichever driver it registers by, its rights are bound by the hub."""
    client = context.client
    found = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    if found is None:
        raise NotFoundOnHub(f"there is no cluster {name}: `watchword clusters` lists all")
    admin = HubAdmin(client, context.clock)

    async def act() -> bool:
        result = await deny(admin, name)
        return result.changed or bool(result.requests)

    return Revocation(
        target=RevocationTarget("cluster", name),
        object=found,
        actions=(
            f"deny ManagedCluster {name}: the hub removes the rights of its agent and of its add-ons",
            f"deny the certificate requests of {name} that are pending",
        ),
        consequence=CONSEQUENCE,
        act=act,
        probes=await find_access_probes(client, await _bindings(client, name)),
    )


async def _bindings(client: Client, cluster: str) -> list[Object]:
    """Return the bindings that only an accepted cluster has."""
    names = (registration_binding(cluster), work_binding(cluster))
    found = [await client.find(ROLE_BINDINGS, ObjectKey(cluster, name)) for name in names]
    return [binding for binding in found if binding is not None]
