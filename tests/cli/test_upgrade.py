"""`watchword upgrade` carried out: the hub first, then an agent, with pods that a node runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import connected, join, watchword

from watchword.api import yaml
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET, HUB_NAMESPACE, IMAGE
from watchword.api.resources import DEPLOYMENTS, KLUSTERLETS, SECRETS
from watchword.cli._exit_codes import ExitCode
from watchword.kube.client import Client

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded"), pytest.mark.timeout(180), pytest.mark.slow]

NEW, ABSENT = "watchword:9.9.9", "registry.test/watchword-of-others:1"
CONTROLLER = ObjectKey(HUB_NAMESPACE, "cluster-manager-controller")
AGENT = ObjectKey(AGENT_NAMESPACE, "klusterlet-agent")
CREDENTIAL = ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET)


def merged(folder: Path, **kubeconfigs: Path) -> Path:
    """Write one kubeconfig with a context for each of several."""
    parts: dict[str, list[Object]] = {"clusters": [], "users": [], "contexts": []}
    for name, path in kubeconfigs.items():
        found = yaml.load(path.read_text())
        parts["clusters"].append({**found["clusters"][0], "name": name})
        parts["users"].append({**found["users"][0], "name": name})
        parts["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    target = folder / "merged"
    target.write_text(yaml.dump({"apiVersion": "v1", "kind": "Config", "current-context": "hub", **parts}))
    return target


async def image_of(client: Client, key: ObjectKey) -> str:
    return str((await client.get(DEPLOYMENTS, key))["spec"]["template"]["spec"]["containers"][0]["image"])


async def test_hub_is_upgraded_before_its_agent_and_an_image_that_fails_stops_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        a_cluster_with_node(tmp_path / "hub") as hub,
        a_cluster_with_node(tmp_path / "edge") as edge,
        connected(hub) as on_hub,
        connected(edge) as on_edge,
    ):
        await join(hub, edge, tmp_path)
        credential = (await on_edge.get(SECRETS, CREDENTIAL))["data"]
        both, upgrade = merged(tmp_path, hub=hub, edge=edge), ("upgrade", "--agent-context", "edge", "--yes")

        failed = await watchword(both, *upgrade, "--image", ABSENT, "--timeout", "5s")
        assert (failed, ABSENT in capsys.readouterr().err) == (ExitCode.UNREACHABLE, True)
        klusterlet = await on_edge.get(KLUSTERLETS, ObjectKey.cluster("klusterlet"))
        assert klusterlet["spec"]["imagePullSpec"] == IMAGE

        assert await watchword(both, *upgrade, "--image", NEW) == ExitCode.DONE
        assert [line for line in capsys.readouterr().out.splitlines() if "upgraded" in line] == [
            f"hub upgraded to {NEW}",
            f"agent klusterlet upgraded to {NEW}",
        ]
        assert [await image_of(on_hub, CONTROLLER), await image_of(on_edge, AGENT)] == [NEW, NEW]
        assert (await on_edge.get(SECRETS, CREDENTIAL))["data"] == credential
        assert await watchword(both, "rotate", "cluster", "edge-1") == ExitCode.DONE  # hub and agent work
