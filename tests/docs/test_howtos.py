"""Every block of commands in README, tutorial and how-tos is executed, or its page says why not."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import join_cluster, watchword

from tools.docs_executed import command_pages, describe_execution, read_command_blocks

ROOT = Path(__file__).parents[2]
FLEET = "run: on the hub of a fleet"


def test_every_block_says_how_it_is_executed_or_why_it_is_not() -> None:
    blocks = read_command_blocks(command_pages(ROOT))

    assert [f"{block.page.name}:{block.line}" for block in blocks if not (block.is_executed or block.reason)] == []
    assert f"blocks {len(blocks)}, executed" in describe_execution(blocks, ROOT)
    assert {block.mark for block in blocks if block.is_executed and block.page.name != "tutorial.md"} == {FLEET}


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.timeout(400)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_blocks_of_how_tos_work_on_a_fleet(tmp_path: Path) -> None:
    """A hub with the clusters edge-1 and edge-2, and the namespaces that the pages name."""
    async with AsyncExitStack() as stack:
        names = ("hub", "edge-1", "edge-2")
        hub, *edges = [await stack.enter_async_context(a_cluster_with_node(tmp_path / name)) for name in names]
        command = tmp_path / "join"
        assert await watchword(hub, "init", "--wait", "--output-join-command-file", str(command)) == 0
        for name, edge in zip(names[1:], edges, strict=True):
            await join_cluster(hub, edge, command.read_text(), name)
        for kubeconfig in (hub, *edges):
            for namespace in ("team-a", "shop", "billing"):
                await type_commands(f"kubectl create namespace {namespace}", kubeconfig, tmp_path)
        for block in read_command_blocks(command_pages(ROOT)):
            if block.mark == FLEET:
                await type_commands(block.script, hub, tmp_path)


async def type_commands(script: str, kubeconfig: Path, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT / "src")}
    done = await asyncio.to_thread(
        subprocess.run, ["bash", "-euo", "pipefail", "-c", script],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
