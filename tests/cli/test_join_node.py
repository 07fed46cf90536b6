"""`join --node-name`: a machine without a cluster of its own gets a certificate and a kubeconfig."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP, NODE_GROUP
from watchword.cli._exit_codes import ExitCode
from watchword.kube.access_reviews import who_am_i
from watchword.kube.connect import connect
from watchword.kube.kubeconfig_files import read_kubeconfig

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


async def test_machine_joins_where_node_requests_are_approved_automatically(cli_fleet: Fleet) -> None:
    arguments = await cli_fleet.init("--no-probe", "--approve-nodes")
    cli_fleet.start_hub()
    path, name = cli_fleet.folder / "kubelet.conf", cli_fleet.unique("node")
    await cli_fleet.run("join", *arguments, "--node-name", name, "--credential-file", str(path))
    client = connect(path)
    identity = await who_am_i(client)
    await client.close()
    assert identity.username == f"system:node:{name}"
    assert "system:nodes" in identity.groups
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.with_name("kubelet.conf.key").exists()


async def test_a_second_run_keeps_a_certificate_that_is_good(cli_fleet: Fleet) -> None:
    arguments = await cli_fleet.init("--no-probe", "--approve-nodes")
    cli_fleet.start_hub()
    path, name = cli_fleet.folder / "kubelet.conf", cli_fleet.unique("node")
    for _ in range(2):
        await cli_fleet.run("join", *arguments, "--node-name", name, "--credential-file", str(path))
    assert read_kubeconfig(path).choose().user.certificate_data
    before = path.stat().st_mtime_ns
    await cli_fleet.run("join", *arguments, "--node-name", name, "--credential-file", str(path))
    assert path.stat().st_mtime_ns == before


async def test_without_approval_waiting_ends_and_the_next_try_continues(cli_fleet: Fleet) -> None:
    arguments = await cli_fleet.init("--no-probe")
    groups = f"{MANAGED_CLUSTER_GROUP},{NODE_GROUP}"
    token = await cli_fleet.run("token", "create", "--groups", groups, "--show-token")
    arguments[arguments.index("--token") + 1] = token.strip()
    cli_fleet.start_hub()
    path, name = cli_fleet.folder / "kubelet.conf", cli_fleet.unique("node")
    flags = ["--node-name", name, "--credential-file", str(path), "--timeout", "1s"]
    said = [await cli_fleet.run("join", *arguments, *flags, code=ExitCode.UNREACHABLE) for _ in range(2)]
    assert "was not approved within" in said[0]
    assert said[0].split("request ")[1].split()[0] == said[1].split("request ")[1].split()[0]
    assert not path.exists()


async def test_token_for_clusters_is_none_for_machines(cli_fleet: Fleet) -> None:
    arguments = await cli_fleet.init("--no-probe")
    cli_fleet.start_hub()
    path = cli_fleet.folder / "kubelet.conf"

    flags = ["--node-name", "worker-1", "--credential-file", str(path), "--timeout", "30s"]
    said = await cli_fleet.run("join", *arguments, *flags, code=ExitCode.REFUSED)

    assert "--approve-nodes" in said
