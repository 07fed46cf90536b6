"""What the documentation shows to authors of add-ons really runs."""

from __future__ import annotations

import asyncio
import doctest
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.addons.fleet import AddonFleet, decoded
from tests.helpers.kubeconfigs import kubeconfig as a_kubeconfig
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import connected, is_available, join, watchword

import watchword.addons as package
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, ConditionType
from watchword.api.resources import (
    CLUSTER_MANAGEMENT_ADDONS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MANAGED_CLUSTER_ADDONS,
    MANIFEST_WORKS,
    NAMESPACES,
    SECRETS,
)
from watchword.kube.client import Client
from watchword.kube.kubeconfig_files import load_kubeconfig
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_config_map
from watchword.testing.credentials import write_private
from watchword.testing.eventually import eventually

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
LINES = 40


def example(page: str) -> str:
    return examples(page)[0]


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL)


def test_whole_hub_side_is_about_forty_lines() -> None:
    lines = [line for line in example("write-an-addon.md").splitlines() if line.strip()]

    assert len(lines) <= LINES


def test_rights_of_the_guide_can_be_written_so() -> None:
    names: dict[str, Any] = {}

    exec(compile(example("addon-rbac.md"), "addon-rbac.md", "exec"), names)

    assert [grant.name for grant in names["weather"].grants] == ["status-writer", "stations"]


def test_summary_of_the_package_can_be_typed() -> None:
    result = doctest.testmod(package)

    assert (result.failed, result.attempted) == (0, 3)


@asynccontextmanager
async def running(program: Path, text: str, **environment: str) -> AsyncIterator[None]:
    """Run a program of a guide until the end of the block."""
    write_private(program, text.encode())
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), env={**os.environ, **environment})
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.real_time
@pytest.mark.timeout(180)
async def test_hub_side_of_the_guide_runs_as_it_stands(addon_fleet: AddonFleet, tmp_path: Path) -> None:
    await addon_fleet.client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ADDON_NAMESPACE)))
    cluster = await addon_fleet.cluster()
    program, kubeconfig = example("write-an-addon.md"), str(addon_fleet.plane.kubeconfig)

    async with running(tmp_path / "weather.py", program, KUBECONFIG=kubeconfig):
        key = await addon_fleet.enable("weather", cluster)
        await addon_fleet.says(key, ConditionType.REGISTRATION_APPLIED)
        work = await eventually(addon_fleet.client, MANIFEST_WORKS, ObjectKey(cluster, "addon-weather-deploy-0"))
        hub = addon_fleet.as_token((await addon_fleet.secret_anywhere("weather-hub-kubeconfig"))["token"])
        await hub.create(CONFIG_MAPS, a_config_map("forecast", namespace=cluster, data={"sky": "blue"}))

    kinds = [manifest["kind"] for manifest in work["spec"]["workload"]["manifests"]]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "Deployment"]


def has_permissions(addon: Object | None) -> bool:
    return is_true(addon or {}, ConditionType.REGISTRATION_APPLIED)


async def pod_environment(edge: Client, edge_kubeconfig: Path, folder: Path) -> dict[str, str]:
    """Prepare what a kubelet gives the agent of the weather add-on, as its applied Deployment asks for it."""
    deployment = await eventually(edge, DEPLOYMENTS, ObjectKey(ADDON_NAMESPACE, "weather"))
    pod = deployment["spec"]["template"]["spec"]
    (volume,), (container,) = pod["volumes"], pod["containers"]
    key = ObjectKey(ADDON_NAMESPACE, volume["secret"]["secretName"])
    secret = await eventually(edge, SECRETS, key, lambda obj: "kubeconfig" in decoded(obj or {}))
    for name, content in decoded(secret).items():
        write_private(folder / name, content)
    account = ObjectKey(ADDON_NAMESPACE, pod["serviceAccountName"])
    granted = await request_token(edge, account, expiration_seconds=3600)
    cluster = load_kubeconfig(edge_kubeconfig).choose("").cluster
    config = a_kubeconfig(cluster.server, cluster.ca_data, {"token": granted.token.reveal()})
    own = write_private(folder / "own.kubeconfig", orjson.dumps(config))
    variables = {row["name"]: row["value"] for row in container["env"]}
    return {**variables, "HUB_FILES": str(folder), "KUBECONFIG": str(own)}


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.timeout(180)
async def test_addon_of_the_guide_becomes_available(tmp_path: Path) -> None:
    hub_side, agent_side = examples("write-an-addon.md")
    async with a_cluster_with_node(tmp_path / "hub") as hub, a_cluster_with_node(tmp_path / "edge") as edge:
        await join(hub, edge, tmp_path, "--addon-kubeclient-registration-auth", "token")
        manager = running(tmp_path / "weather.py", hub_side, KUBECONFIG=str(hub))
        async with manager, connected(hub) as hub_client, connected(edge) as edge_client:
            await eventually(hub_client, CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster("weather"), within=90)
            assert await watchword(hub, "addon", "enable", "weather", "--clusters", "edge-1") == 0
            addon = ObjectKey("edge-1", "weather")
            await eventually(hub_client, MANAGED_CLUSTER_ADDONS, addon, has_permissions, within=90)
            environment = await pod_environment(edge_client, edge, tmp_path)
            async with running(tmp_path / "weather_agent.py", agent_side, **environment):
                await eventually(hub_client, MANAGED_CLUSTER_ADDONS, addon, is_available, within=90)
                report = await eventually(hub_client, CONFIG_MAPS, ObjectKey("edge-1", "forecast"))
    assert report["data"] == {"sky": "blue"}
