"""Clusters with a node that runs the deployed workloads, for end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.apiserver.node.model import Runner
from watchword.local.workloads import COMMANDS, WORKLOADS


@asynccontextmanager
async def a_cluster_with_node(
    folder: Path, *, runner: Runner | None = None, commands: tuple[str, ...] = COMMANDS
) -> AsyncIterator[Path]:
    """Serve a control plane whose node runs the deployed workloads; yield its administrator's kubeconfig."""
    workloads = replace(WORKLOADS, commands=commands)
    settings = InstanceSettings(data_dir=folder, port=0, node=workloads, runner=runner)
    instance = Instance(settings, lambda: datetime.now(UTC))
    await instance.start()
    try:
        yield instance.kubeconfig
    finally:
        await instance.stop()
