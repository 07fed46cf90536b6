"""`--kubeconfig` and `--context`, the same for every command that connects to a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from watchword.cli.name_completion import complete_contexts

if TYPE_CHECKING:
    from watchword.kube.client import Client
    from watchword.kube.kubeconfig import ResolvedContext

F = TypeVar("F", bound=Callable[..., Any])


class ClusterConnection(Struct, frozen=True):
    """The cluster that a command connects to."""

    kubeconfig: Path | None = None
    context: str = ""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Connect, and close the connection in the end."""
        from watchword.kube.connect import connect

        client = connect(self.kubeconfig, self.context)
        try:
            yield client
        finally:
            await client.close()

    def choice(self) -> ResolvedContext:
        """Return the cluster and the user of the kubeconfig."""
        from watchword.kube.kubeconfig_files import load_kubeconfig

        return load_kubeconfig(self.kubeconfig).choose(self.context)


def cluster_name_of(connection: ClusterConnection) -> str:
    """Return what the kubeconfig calls the cluster, empty when there is no usable kubeconfig."""
    from watchword.kube.errors import ConfigError

    try:
        return connection.choice().cluster_name
    except ConfigError:
        return ""


def connection_options(command: F) -> F:
    """Add the options; the command gets one argument, `connection`."""

    @click.option("--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig to use instead of $KUBECONFIG.")
    @click.option(
        "--context", default="", help="The context of the kubeconfig to use.", shell_complete=complete_contexts
    )
    @wraps(command)
    def with_connection(*args: Any, kubeconfig: Path | None, context: str, **kwargs: Any) -> Any:
        return command(*args, connection=ClusterConnection(kubeconfig, context), **kwargs)

    return with_connection  # type: ignore[return-value]  # a command stays a command
