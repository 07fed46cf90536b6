"""`--kubeconfig` and `--context`, the same for every command that connects to a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from watchword.cli.options import gathered, text

if TYPE_CHECKING:
    from watchword.kube.client import Client
    from watchword.kube.kubeconfig import ResolvedContext

PATIENCE = 2.0  # seconds that a shell waits for a server


def complete_contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from watchword.kube.errors import KubeError
    from watchword.kube.kubeconfig_files import load_kubeconfig

    try:
        contexts = load_kubeconfig(_kubeconfig(ctx)).contexts
    except KubeError:
        return []
    return [name for name in sorted(contexts) if name.startswith(incomplete)]


def complete_clusters(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the clusters of the hub; after a comma, further ones."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _ask(ctx, _cluster_names) if name.startswith(last)]


def complete_tokens(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _ask(ctx, _token_ids) if name.startswith(incomplete)]


async def _cluster_names(client: Client) -> list[str]:
    from watchword.api.resources import MANAGED_CLUSTERS

    return sorted(obj["metadata"]["name"] for obj in (await client.list(MANAGED_CLUSTERS)).items)


async def _token_ids(client: Client) -> list[str]:
    from watchword.discovery.token_secret import TokenStore

    records, _ = await TokenStore(client).list()
    return [record.token.id for record in records]


def _ask(ctx: click.Context, question: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Ask the hub; a shell that cannot be answered in time completes nothing."""
    from watchword.kube.errors import KubeError
    from watchword.runtime.event_loop import run

    try:
        return run(_answer(ctx, question))
    except (KubeError, TimeoutError, OSError):
        return []


async def _answer(ctx: click.Context, question: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    import asyncio

    from watchword.kube.connect import connect

    client = connect(_kubeconfig(ctx), str(ctx.params.get("context") or ""))
    try:
        async with asyncio.timeout(PATIENCE):
            return await question(client)
    finally:
        await client.close()


def _kubeconfig(ctx: click.Context) -> Path | None:
    found = ctx.params.get("kubeconfig")
    return Path(found) if found else None


T = TypeVar("T")


class ClusterConnection(Struct, frozen=True):
    """The cluster that a command connects to."""

    kubeconfig: Path | None = None
    context: str = ""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        from watchword.kube.connect import connect

        client = connect(self.kubeconfig, self.context)
        try:
            yield client
        finally:
            await client.close()

    def run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        from watchword.runtime.event_loop import run

        async def main() -> T:
            async with self.client() as client:
                return await work(client)

        return run(main())

    def choice(self) -> ResolvedContext:
        from watchword.kube.kubeconfig_files import load_kubeconfig

        return load_kubeconfig(self.kubeconfig).choose(self.context)


def cluster_name_of(connection: ClusterConnection) -> str:
    """Return what the kubeconfig calls the cluster, empty when there is no usable kubeconfig."""
    from watchword.kube.errors import ConfigError

    try:
        return connection.choice().cluster_name
    except ConfigError:
        return ""


connection_options = gathered(
    "connection",
    ClusterConnection,
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Path of the kubeconfig; by default $KUBECONFIG or ~/.kube/config.",
    ),
    text("--context", shell_complete=complete_contexts, help="Context of the kubeconfig; by default the current one."),
)
"""Adds the options; the command gets one argument, `connection`."""
