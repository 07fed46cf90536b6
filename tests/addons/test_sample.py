"""The sample add-on: what its author writes, its identities on both sides, and that it runs on a node."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.addons.fleet import AddonFleet
from tests.helpers.leases import a_lease
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import connected, is_available, join, watchword

from watchword.addons.definition import AddonInstance
from watchword.addons.lease import lease_manifests
from watchword.addons.sample.agent import SampleAgent
from watchword.addons.sample.hub import NAME, REPORT, SAMPLE
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, ConditionType
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_cluster, an_addon
from watchword.testing.eventually import eventually, is_gone

AVAILABLE = ConditionType.ADDON_AVAILABLE
ON_CLUSTER = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, DEPLOYMENTS, LEASES)


async def as_own_account(addon_fleet: AddonFleet, cluster: str) -> Client:
    """Apply what lets the agent keep its lease, as the cluster's agent does, and be that account."""
    addon = Addon.read({**an_addon(NAME, cluster=cluster), "status": {"namespace": addon_fleet.namespace}})
    manifests = lease_manifests(AddonInstance(addon, Cluster.read(a_cluster(cluster))))
    for resource, manifest in zip((SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS), manifests, strict=True):
        await addon_fleet.client.create(resource, manifest)
    granted = await request_token(addon_fleet.client, ObjectKey(addon_fleet.namespace, NAME), expiration_seconds=3600)
    return addon_fleet.as_token(granted.token.reveal().encode())


def has_beaten_twice(report: Object | None) -> bool:
    return int(((report or {}).get("data") or {}).get("beats") or 0) >= 2


async def test_agent_renews_its_lease_with_narrow_rights(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster()
    addon_fleet.start_addon(replace(SAMPLE, install_namespace=addon_fleet.namespace))
    addon = await addon_fleet.enable(NAME, cluster)
    await addon_fleet.says(addon, ConditionType.REGISTRATION_APPLIED)
    hub, local = (
        addon_fleet.as_token((await addon_fleet.secret(addon))["token"]),
        await as_own_account(addon_fleet, cluster),
    )

    stop = asyncio.Event()
    agent = SampleAgent(hub, cluster, addon_fleet.plane.clock, local, addon_fleet.namespace)
    beating = asyncio.create_task(agent.run(timedelta(seconds=1), stop))
    await addon_fleet.says(addon, AVAILABLE, "True", "ManagedClusterAddOnLeaseUpdated")
    report = await eventually(addon_fleet.client, CONFIG_MAPS, ObjectKey(cluster, REPORT), has_beaten_twice)
    stop.set()
    await beating
    assert report["data"]["cluster"] == cluster


async def test_lease_keeper_may_do_nothing_else(addon_fleet: AddonFleet) -> None:
    local = await as_own_account(addon_fleet, "edge")
    other = ObjectKey(addon_fleet.namespace, "other")
    await addon_fleet.client.create(
        LEASES, a_lease("other", namespace=addon_fleet.namespace, renewed_at=addon_fleet.plane.clock.now())
    )

    for attempt in (
        local.patch(LEASES, other, {"spec": {"holderIdentity": "me"}}),
        local.list(LEASES, namespace=addon_fleet.namespace),
        local.get(SECRETS, ObjectKey(addon_fleet.namespace, f"{NAME}-hub-kubeconfig")),
        local.create(LEASES, a_lease(NAME, namespace="default", renewed_at=addon_fleet.plane.clock.now())),
    ):
        with pytest.raises(Forbidden):
            await attempt


@asynccontextmanager
async def sample_manager(hub: Path) -> AsyncIterator[None]:
    """Run the add-on's hub side as a process."""
    argv = ("sample-addon", "--manager", "--kubeconfig", str(hub))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "watchword", *argv)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.timeout(180)
async def test_deployed_agent_is_available_and_leaves_nothing(tmp_path: Path) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as hub, a_cluster_with_node(tmp_path / "edge") as edge:
        await join(hub, edge, tmp_path, "--addon-kubeclient-registration-auth", "token")
        async with sample_manager(hub), connected(hub) as hub_client, connected(edge) as edge_client:
            await eventually(hub_client, CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(NAME), within=90)
            assert await watchword(hub, "addon", "enable", NAME, "--clusters", "edge-1") == 0
            key = ObjectKey("edge-1", NAME)
            await eventually(hub_client, MANAGED_CLUSTER_ADDONS, key, is_available, within=90)
            pods = (await edge_client.list(PODS, namespace=ADDON_NAMESPACE)).items
            assert {pod["spec"]["serviceAccountName"] for pod in pods} == {NAME}

            assert await watchword(hub, "addon", "disable", NAME, "--clusters", "edge-1") == 0
            left = [(resource, NAME) for resource in ON_CLUSTER] + [(SECRETS, f"{NAME}-hub-kubeconfig")]
            for resource, name in left:
                await eventually(edge_client, resource, ObjectKey(ADDON_NAMESPACE, name), is_gone, within=60)
