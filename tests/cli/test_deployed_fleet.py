"""The whole way with nothing in between: commands deploy the operator, the operator deploys hub and agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from watchword.cli.main import run
from watchword.testing.node_cluster import a_cluster_with_node

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]


async def watchword(kubeconfig: Path, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(kubeconfig)])


async def test_three_commands_bring_a_cluster_in_and_one_takes_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as hub, a_cluster_with_node(tmp_path / "edge") as edge:
        command = tmp_path / "join"
        assert await watchword(hub, "init", "--wait", "--output-join-command-file", str(command)) == 0
        arguments = command.read_text().split()[2:-1]
        joining = asyncio.create_task(watchword(edge, "join", *arguments, "edge-1", "--wait"))
        assert await watchword(hub, "accept", "--clusters", "edge-1", "--wait") == 0
        assert await joining == 0
        capsys.readouterr()
        assert await watchword(edge, "unjoin", "--cluster-name", "edge-1", "-o", "json") == 0
        farewell = json.loads(capsys.readouterr().out)
        assert farewell["left"] == []
        assert "lease/open-cluster-management/watchword-operator-lock" in farewell["removed"]
        assert await watchword(hub, "clusters") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["edge-1", "false"]
