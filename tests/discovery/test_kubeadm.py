"""The real kubeadm accepts our tokens and cluster-info, and the other way round."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.helpers.discoverable_hub import DiscoverableHub

from watchword.discovery.discover import BootstrapTokenDiscovery, ClusterDiscovery
from watchword.discovery.token_secret import TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.testing.errors import AssetsMissing
from watchword.testing.kube_apiserver_backend import find_assets

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
BELIEVED = "Cluster info signature and contents are valid and TLS certificate validates against pinned roots"


@pytest.fixture(scope="session")
def kubeadm() -> Path:
    try:
        return find_assets().companion("kubeadm")
    except AssetsMissing as error:
        pytest.skip(str(error))


async def run(program: Path, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def join(kubeadm: Path, hub: DiscoverableHub, token: BootstrapToken, pin: str, folder: Path) -> str:
    """Run the first phase of `kubeadm join`: discovery, then checks of the node, which fail here."""
    config = folder / "join.yaml"
    config.write_text(f"""\
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
nodeRegistration: {{criSocket: "unix:///nowhere"}}
timeouts: {{discovery: 10s, kubernetesAPICall: 1s}}
discovery:
  bootstrapToken:
    apiServerEndpoint: {hub.plane.server.removeprefix("https://")}
    token: {token.reveal()}
    caCertHashes: ["{pin}"]
""")
    arguments = ("join", "phase", "preflight", "-v=5", "--ignore-preflight-errors=all", f"--config={config}")
    return "".join(str(part) for part in await run(kubeadm, *arguments))


async def test_kubeadm_accepts_the_cluster_info_that_we_sign(
    kubeadm: Path, hub: DiscoverableHub, tmp_path: Path
) -> None:
    token = await hub.has_token()
    async with hub.controllers():
        await hub.signed_for(token)
    assert BELIEVED in await join(kubeadm, hub, token, str(hub.info.pins[0]), tmp_path)


async def test_kubeadm_and_we_refuse_the_same_pin(kubeadm: Path, hub: DiscoverableHub, tmp_path: Path) -> None:
    token = await hub.has_token()
    async with hub.controllers():
        await hub.signed_for(token)
    assert BELIEVED not in await join(kubeadm, hub, token, "sha256:" + "0" * 64, tmp_path)


async def test_a_token_that_kubeadm_creates_is_ours_and_the_other_way_round(
    kubeadm: Path, hub: DiscoverableHub
) -> None:
    kubeconfig = f"--kubeconfig={hub.plane.kubeconfig}"
    code, printed, problem = await run(kubeadm, "token", "create", "--description=from kubeadm", kubeconfig)
    assert code == 0, problem
    token = BootstrapToken.parse(printed.strip())
    ours = await hub.has_token(description="from watchword", groups=("system:bootstrappers:managedcluster",))
    records, ignored = await TokenStore(hub.client).list()
    _, listed, _ = await run(kubeadm, "token", "list", kubeconfig)
    async with hub.controllers():
        found = await ClusterDiscovery(hub.client_factory).by_token(
            BootstrapTokenDiscovery(hub.plane.server, token, hub.info.pins)
        )
    assert {(r.token.id, r.description) for r in records} == {(token.id, "from kubeadm"), (ours.id, "from watchword")}
    assert ignored == []
    assert ours.reveal() in listed
    assert "from watchword" in listed
    assert found == hub.info
