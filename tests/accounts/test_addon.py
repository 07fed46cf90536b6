"""The add-on as users install it: served by the hub, its agent run by a node of the cluster, either driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.accounts.fleet import AccountsFleet
from tests.accounts.guides import GUIDE, command
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import connected, is_available, join, watchword

from watchword.accounts.hub.definition import DEPLOYMENT
from watchword.addons.hub.deployment import deploy_name
from watchword.admin.addons import AccountsAddonAdmin, accounts_bundle
from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.admin.service_accounts import WORK_GRANTS_ROLE
from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import ObjectKey
from watchword.api.names import ADDON_NAMESPACE, AGENT_NAMESPACE
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_SERVICE_ACCOUNTS,
    MANIFEST_WORKS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.discovery.cluster_info import ClusterInfo
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, Unauthorized
from watchword.operator.cluster_manager import CONTROLLER
from watchword.pki.certificates import split_bundle
from watchword.testing.builders import a_cluster_role_binding
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

CLUSTER = "edge-1"


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.timeout(240)
@pytest.mark.parametrize("driver", ["token", "csr"])
async def test_account_of_an_installed_add_on_is_usable_and_revoked(tmp_path: Path, driver: str) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as hub, a_cluster_with_node(tmp_path / "edge") as edge:
        await join(hub, edge, tmp_path, "--addon-kubeclient-registration-auth", driver)
        async with connected(hub) as hub_client, connected(edge) as edge_client:
            enable = command(GUIDE, "addon enable", **{"edge_1,edge_2": CLUSTER})
            assert await watchword(hub, *enable) == 0
            key = ObjectKey(CLUSTER, ADDON_NAME)
            await eventually(hub_client, MANAGED_CLUSTER_ADDONS, key, is_available, within=90)

            account = ObjectKey(CLUSTER, "robot")
            assert await watchword(hub, *command(GUIDE, "serviceaccount create")) == 0
            config = tmp_path / "robot.yaml"
            argv = command(GUIDE, "serviceaccount kubeconfig", robot_kubeconfig=str(config))
            assert await watchword(hub, *argv) == 0
            async with connected(config) as robot:
                assert (await who_am_i(robot)).username == f"system:serviceaccount:{ADDON_NAMESPACE}:robot"
                with pytest.raises(Forbidden):
                    await robot.list(CONFIG_MAPS, namespace="kube-public")
                grant = command(GUIDE, "serviceaccount grant", **{"shop,billing": "kube-public"})
                assert await watchword(hub, *grant) == 0
                await robot.list(CONFIG_MAPS, namespace="kube-public")
                await grant_on_the_whole_cluster(hub, edge_client)
                await robot.list(CONFIG_MAPS)
                assert await watchword(hub, *command(GUIDE, "serviceaccount delete", team=CLUSTER)) == 0
                await eventually(hub_client, MANAGED_SERVICE_ACCOUNTS, account, is_gone)
                local = ObjectKey(ADDON_NAMESPACE, "robot")
                await eventually(edge_client, SERVICE_ACCOUNTS, local, is_gone)
                with pytest.raises(Unauthorized):
                    await who_am_i(robot)
            assert await watchword(hub, *command(GUIDE, "addon uninstall")) == 0
            await nothing_is_left(hub_client, edge_client)


async def grant_on_the_whole_cluster(hub: Path, edge: Client) -> None:
    """Do what a refused grant advises an administrator of the cluster to do, and see it granted."""
    grant = ("msa", "grant", "robot", "-n", CLUSTER, "--cluster-role", "view", "--wait")
    assert await watchword(hub, *grant, "--timeout", "1s") != 0
    rule = {
        "apiGroups": [CLUSTER_ROLE_BINDINGS.group],
        "resources": [CLUSTER_ROLE_BINDINGS.plural],
        "verbs": ["get", "create", "patch", "delete"],
    }
    key = ObjectKey.cluster(WORK_GRANTS_ROLE)
    await edge.create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(key, rules=[rule]))
    for role in (WORK_GRANTS_ROLE, "view"):
        binding = a_cluster_role_binding(
            f"grants-{role}", role=role, users=[f"system:serviceaccount:{AGENT_NAMESPACE}:klusterlet-sa"]
        )
        await edge.create(CLUSTER_ROLE_BINDINGS, binding)
    assert await watchword(hub, *grant) == 0


async def nothing_is_left(hub: Client, edge: Client) -> None:
    """Check that neither kinds nor rights nor the agent remain."""
    for resource, obj in accounts_bundle():
        await eventually(hub, resource, ObjectKey.of(obj), is_gone)
    assert await hub.find(MANAGED_CLUSTER_ADDONS, ObjectKey(CLUSTER, ADDON_NAME)) is None
    await eventually(edge, SERVICE_ACCOUNTS, ObjectKey(ADDON_NAMESPACE, ADDON_NAME), is_gone)


@pytest.mark.planes("embedded")  # what others left on the real one would be found
async def test_hub_without_an_operator_gets_the_rights_to_serve_accounts(plane: Plane) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    await set_up_hub(plane.client(), HubSetup(info, deploy=False))
    hub = UserIdentity(f"system:serviceaccount:{CONTROLLER.namespace}:{CONTROLLER.name}")
    reading = ResourceAccess("list", SECRETS)
    assert not await may(plane.client(), hub, reading)

    assert await AccountsAddonAdmin(plane.client()).install()

    assert await may(plane.client(), hub, reading)


async def test_manager_of_its_own_installs_the_agent_by_a_work(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()

    work = await eventually(fleet.client, MANIFEST_WORKS, ObjectKey(member.name, deploy_name(ADDON_NAME, 0)))

    found = {(obj["kind"], obj["metadata"]["name"]) for obj in work["spec"]["workload"]["manifests"]}
    assert ("Deployment", DEPLOYMENT) in found
