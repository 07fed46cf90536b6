"""What tests do with a hub and a cluster whose nodes run what is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from watchword.api.conditions import is_true
from watchword.api.meta import Object
from watchword.api.names import ConditionType
from watchword.cli.main import run
from watchword.kube.client import Client
from watchword.kube.connect import connect


async def watchword(kubeconfig: Path, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(kubeconfig)])


async def join(hub: Path, edge: Path, folder: Path, *flags: str) -> None:
    """Bring a cluster in, and wait until it is."""
    command = folder / "join"
    assert await watchword(hub, "init", "--wait", "--output-join-command-file", str(command)) == 0
    arguments = command.read_text().split()[2:-1]
    joining = asyncio.create_task(watchword(edge, "join", *arguments, "edge-1", "--wait", *flags))
    assert await watchword(hub, "accept", "--clusters", "edge-1", "--wait") == 0
    assert await joining == 0


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    client = connect(kubeconfig)
    try:
        yield client
    finally:
        await client.close()


def is_available(addon: Object | None) -> bool:
    return is_true(addon or {}, ConditionType.ADDON_AVAILABLE)
