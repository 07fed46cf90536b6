"""The whole way with nothing in between: commands deploy the operator, the operator deploys hub and agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import join, watchword

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]


@pytest.mark.slow
async def test_three_commands_bring_a_cluster_in_and_one_takes_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as hub, a_cluster_with_node(tmp_path / "edge") as edge:
        await join(hub, edge, tmp_path)
        capsys.readouterr()
        assert await watchword(edge, "unjoin", "--cluster-name", "edge-1", "-o", "json") == 0
        farewell = json.loads(capsys.readouterr().out)
        assert farewell["left"] == []
        assert "lease/open-cluster-management/watchword-operator-lock" in farewell["removed"]
        assert await watchword(hub, "clusters") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["edge-1", "false"]
