"""A hub that is deployed and has a member is removed completely: nothing comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_hub_backup import everything
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import connected, join, watchword

from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, PODS, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.kube.errors import Forbidden, NotFound, Unauthorized
from watchword.testing.builders import a_cluster
from watchword.testing.credentials import write_private
from watchword.testing.eventually import eventually_all

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(240)]

Output = pytest.CaptureFixture[str]


@pytest.mark.slow
async def test_hub_with_a_running_operator_and_a_running_agent_stays_removed(tmp_path: Path, capsys: Output) -> None:
    async with (
        a_cluster_with_node(tmp_path / "hub") as hub,
        a_cluster_with_node(tmp_path / "edge") as edge,
        connected(hub) as hub_client,
        connected(edge) as edge_client,
    ):
        before = await everything(hub_client)
        await join(hub, edge, tmp_path)
        capsys.readouterr()
        assert await watchword(hub, "clean", "--force", "--delete-kinds", "--dry-run") == 0
        announced = {line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("remove ")}
        assert {"clustermanager/cluster-manager", "managedcluster/edge-1"} <= announced

        assert await watchword(hub, "clean", "--force", "--delete-kinds", "--yes") == 0

        await eventually_all(hub_client, PODS, lambda found: not found)
        await cannot_make_anything(edge_client, tmp_path)
        assert await everything(hub_client) - before == set()
        capsys.readouterr()
        assert await watchword(hub, "clean", "--delete-kinds", "--yes") == 0
        assert capsys.readouterr().out == "there is no hub on this cluster\n"


async def cannot_make_anything(edge: Client, folder: Path) -> None:
    """Try with both credentials of the agent, which still runs, what it needs to come back."""
    for secret, names in ((HUB_KUBECONFIG_SECRET, ("tls.crt", "tls.key")), (BOOTSTRAP_KUBECONFIG_SECRET, ())):
        data = decode_data(await edge.get(SECRETS, ObjectKey(AGENT_NAMESPACE, secret)))
        (folder / secret).mkdir()
        for name in ("kubeconfig", *names):
            write_private(folder / secret / name, data[name])
        agent = connect(folder / secret / "kubeconfig")
        try:
            with pytest.raises((Forbidden, Unauthorized)):
                await agent.list(CERTIFICATE_SIGNING_REQUESTS)
            with pytest.raises((Forbidden, Unauthorized, NotFound)):
                await agent.create(MANAGED_CLUSTERS, a_cluster("edge-1"))
        finally:
            await agent.close()
