"""Clusters whose name is that of something else, accepted by an administrator who did not look closely."""

from __future__ import annotations

import pytest
from tests.helpers.fleet import FleetHarness, PlaneConnector

from watchword.api.cluster import Cluster
from watchword.api.meta import ObjectKey
from watchword.api.names import RESERVED_CLUSTER_NAMES, ConditionType, cluster_role
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, MANAGED_CLUSTERS, NAMESPACES, ROLE_BINDINGS
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError
from watchword.registration.hub.cluster_acceptance import AcceptanceDecision, decide_acceptance
from watchword.testing.builders import a_cluster


async def accepted(fleet: FleetHarness, name: str) -> None:
    joining = Client(PlaneConnector(fleet.plane).joining())
    await joining.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={}))
    await fleet.accept(name)


async def has_rights(fleet: FleetHarness, name: str) -> bool:
    bindings = (await fleet.client.list(ROLE_BINDINGS, namespace=name)).items
    ours = [row for row in bindings if row["metadata"]["name"].startswith("open-cluster-management:")]
    roles = [
        await fleet.client.find(kind, ObjectKey.cluster(cluster_role(name)))
        for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    ]
    return bool(ours) or any(roles)


@pytest.mark.parametrize("name", sorted(RESERVED_CLUSTER_NAMES))
async def test_reserved_name_is_refused_to_joining_clusters_and_to_administrators(
    fleet: FleetHarness, name: str
) -> None:
    joining = Client(PlaneConnector(fleet.plane).joining())
    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={})

    for client in (joining, fleet.client):
        with pytest.raises(Forbidden, match="reserved"):
            await client.create(MANAGED_CLUSTERS, manifest)


@pytest.mark.parametrize("name", ["wo.rk", "x" * 64])
async def test_name_that_no_namespace_can_have_is_refused(fleet: FleetHarness, name: str) -> None:
    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={})

    for client in (Client(PlaneConnector(fleet.plane).joining()), fleet.client):
        with pytest.raises(Forbidden, match="is a DNS label"):
            await client.create(MANAGED_CLUSTERS, manifest)


@pytest.mark.parametrize("name", sorted(RESERVED_CLUSTER_NAMES))
@pytest.mark.parametrize("has_rights", [False, True], ids=["new", "accepted by an earlier version"])
def test_reserved_name_gets_no_rights_where_admission_let_it_pass(name: str, *, has_rights: bool) -> None:
    cluster = Cluster.read(a_cluster(name, accepted=True))

    assert decide_acceptance(cluster, has_cluster_rbac=has_rights) is AcceptanceDecision.REFUSE_NAME


async def test_name_of_a_tenants_namespace_gets_no_rights(fleet: FleetHarness) -> None:
    name = fleet.name("tenant")
    await fleet.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
    fleet.start_hub()

    await accepted(fleet, name)

    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "NameConflict")
    assert not await has_rights(fleet, name)


@pytest.mark.parametrize(
    "name",
    ["edge\n", "edge\u202e", "../kube-system", "EDGE", "edge/status", "a:b", "edge%2f", "*", "x" * 254, "", " "],
)
async def test_name_that_no_object_can_have_is_refused(fleet: FleetHarness, name: str) -> None:
    joining = Client(PlaneConnector(fleet.plane).joining())
    manifest = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedCluster", "metadata": {"name": name}}

    with pytest.raises(KubeError):
        await joining.create(MANAGED_CLUSTERS, manifest)
