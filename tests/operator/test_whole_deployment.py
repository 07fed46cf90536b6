"""The published manifests alone bring up operator, hub and agent as real processes, and the cluster joins."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE, ConditionType
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PODS,
    SECRETS,
    SERVICES,
)
from watchword.api.sensitive import Sensitive
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.discovery.token_secret import TokenRecord, TokenUsage, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.local.workloads import WORKLOADS
from watchword.operator.bundles import install_crds, operator_bundle
from watchword.testing.eventually import eventually, eventually_all

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
SLOW = 120.0  # three processes start on a machine that does other things, too


@pytest.fixture
async def instance(tmp_path: Path) -> AsyncIterator[Instance]:
    """An embedded control plane on a socket whose node runs processes."""
    found = Instance(
        InstanceSettings(tmp_path / "data", port=0, node=WORKLOADS, synchronous="NORMAL"), lambda: datetime.now(UTC)
    )
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def admin(instance: Instance) -> AsyncIterator[Client]:
    client = connect(instance.kubeconfig)
    yield client
    await client.close()


def bootstrap_kubeconfig(instance: Instance, token: BootstrapToken) -> bytes:
    hub = ClusterEntry(server=instance.server, ca_data=instance.material.root_bundle)
    user = UserEntry(token=Sensitive(token.reveal()))
    return dump_kubeconfig(Kubeconfig({"hub": hub}, {"join": user}, {"c": ContextEntry("hub", "join")}, "c"))


async def deploy(admin: Client, token: BootstrapToken, kubeconfig: bytes) -> None:
    """Apply what an administrator applies: manifests, a token, and how to join with it."""
    await install_crds(admin)
    for resource, obj in operator_bundle():
        if resource is not CUSTOM_RESOURCE_DEFINITIONS:
            await admin.apply(resource, obj, force=True)
    usages = (TokenUsage.AUTHENTICATION,)
    record = TokenRecord(token, usages=usages, groups=(MANAGED_CLUSTER_GROUP,))
    await admin.create(SECRETS, write_token_secret(record))
    key = ObjectKey(AGENT_NAMESPACE, "bootstrap-hub-kubeconfig")
    data = {"kubeconfig": base64.b64encode(kubeconfig).decode()}
    await admin.create(SECRETS, SECRETS.manifest(key, data=data))
    await admin.create(CLUSTER_MANAGERS, a_hub_that_accepts(f"system:bootstrap:{token.id}"))
    spec = {"clusterName": "edge"}
    await admin.create(KLUSTERLETS, KLUSTERLETS.manifest(ObjectKey.cluster("klusterlet"), spec=spec))


def a_hub_that_accepts(user: str) -> Object:
    gates = [{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}]
    registration = {"featureGates": gates, "autoApproveUsers": [user]}
    return CLUSTER_MANAGERS.manifest(
        ObjectKey.cluster("cluster-manager"), spec={"registrationConfiguration": registration}
    )


def a_work(cluster: str) -> Object:
    manifest = CONFIG_MAPS.manifest(ObjectKey("default", "from-the-hub"), data={"hello": "edge"})
    return MANIFEST_WORKS.manifest(ObjectKey(cluster, "greeting"), spec={"workload": {"manifests": [manifest]}})


async def test_manifests_become_a_fleet(instance: Instance, admin: Client) -> None:
    token = BootstrapToken.generate()
    await deploy(admin, token, bootstrap_kubeconfig(instance, token))

    await eventually(admin, DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, "klusterlet-agent"), within=SLOW)
    definition = ObjectKey.cluster("managedclusters.cluster.open-cluster-management.io")
    await eventually(
        admin, CUSTOM_RESOURCE_DEFINITIONS, definition, lambda d: is_true(d or {}, "Established"), within=SLOW
    )
    joined = await eventually(
        admin,
        MANAGED_CLUSTERS,
        ObjectKey.cluster("edge"),
        lambda cluster: is_true(cluster or {}, ConditionType.JOINED),
        within=SLOW,
    )

    assert is_true(joined, ConditionType.HUB_ACCEPTED)
    for resource, name in ((KLUSTERLETS, "klusterlet"), (CLUSTER_MANAGERS, "cluster-manager")):
        await eventually(admin, resource, ObjectKey.cluster(name), lambda o: is_true(o or {}, "Available"), within=SLOW)
    await admin.create(MANIFEST_WORKS, a_work("edge"))
    await eventually(admin, CONFIG_MAPS, ObjectKey("default", "from-the-hub"), within=SLOW)
    work = ObjectKey("edge", "greeting")
    await eventually(admin, MANIFEST_WORKS, work, lambda o: is_true(o or {}, ConditionType.WORK_APPLIED), within=SLOW)
    pods = await eventually_all(admin, PODS, lambda found: len(found) == 3, within=SLOW)
    assert {pod["status"]["phase"] for pod in pods.values()} == {"Running"}


async def test_manifests_bring_up_the_server_of_a_driver(admin: Client) -> None:
    await install_crds(admin)
    for resource, obj in operator_bundle():
        if resource is not CUSTOM_RESOURCE_DEFINITIONS:
            await admin.apply(resource, obj, force=True)
    drivers = [{"authType": "csr"}, {"authType": "grpc"}]
    spec = {"registrationConfiguration": {"registrationDrivers": drivers}}
    await admin.create(CLUSTER_MANAGERS, CLUSTER_MANAGERS.manifest(ObjectKey.cluster("cluster-manager"), spec=spec))

    server = ObjectKey(HUB_NAMESPACE, "cluster-manager-grpc-server")
    found = await eventually(
        admin,
        DEPLOYMENTS,
        server,
        lambda o: bool(((o or {}).get("status") or {}).get("availableReplicas")),
        within=SLOW,
    )

    assert found["spec"]["template"]["spec"]["serviceAccountName"] == "grpc-server-sa"
    assert (await admin.get(SERVICES, server))["spec"]["selector"] == {"app": server.name}
