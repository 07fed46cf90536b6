"""The cluster that a command connects to, and the clusters of a hub that it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import wraps
from inspect import iscoroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from watchword.cli.options import (
    DRY_RUN,
    F,
    argument,
    change_options,
    gathered,
    many,
    named,
    output_option,
    split,
    wait_options,
    with_options,
)

if TYPE_CHECKING:
    from watchword.kube.client import Client
    from watchword.kube.kubeconfig import ResolvedContext

T = TypeVar("T")

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
    import asyncio

    from watchword.kube.errors import KubeError

    async def answer(client: Client) -> list[str]:
        async with asyncio.timeout(PATIENCE):
            return await question(client)

    try:
        return ClusterConnection(_kubeconfig(ctx), str(ctx.params.get("context") or "")).run(answer)
    except (KubeError, TimeoutError, OSError):
        return []


def _kubeconfig(ctx: click.Context) -> Path | None:
    found = ctx.params.get("kubeconfig")
    return Path(found) if found else None


class ClusterConnection(Struct, frozen=True):
    """The cluster that a command connects to."""

    kubeconfig: Path | None = None
    context: str = ""

    def client(self) -> Client:
        from watchword.kube.connect import connect

        return connect(self.kubeconfig, self.context)

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


def connection_options(command: F) -> F:
    """Add `--kubeconfig` and `--context`; the command gets `connection`, and runs to its end if it is a coroutine."""

    @gathered(
        "connection",
        ClusterConnection,
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Path of the kubeconfig; by default $KUBECONFIG or ~/.kube/config.",
        ),
        named(
            "--context",
            default="",
            shell_complete=complete_contexts,
            help="Context of the kubeconfig; by default the current one.",
        ),
    )
    @wraps(command)
    def connecting(*args: Any, **kwargs: Any) -> Any:
        from watchword.runtime.event_loop import run

        result = command(*args, **kwargs)
        return run(result) if iscoroutine(result) else result

    return connecting  # type: ignore[return-value]  # a command stays a command


def cluster_names(values: Iterable[str], flag: str = "--clusters") -> tuple[str, ...]:
    """Return cluster names as they were given; `click.UsageError` when there is none, or one can be no cluster's."""
    from watchword.api.cluster import validate_cluster_name

    names = split(values)
    if not names:
        raise click.UsageError(f"name the cluster: {flag} NAME")
    for name in names:
        objection = validate_cluster_name(name)
        if objection:
            raise click.BadParameter(objection, param_hint=flag)
    return names


def cluster_name(value: str) -> str:
    """Return the one name given to `--cluster-name`; `click.UsageError` when it is none, several, or no name."""
    names = cluster_names([value], "--cluster-name")
    if len(names) > 1:
        raise click.UsageError("--cluster-name is one name")
    return names[0]


def _clusters_option(what: str) -> Callable[[Any], Any]:
    return many("--clusters", "--cluster", "-c", "clusters", shell_complete=complete_clusters, help=what)


def clusters_option(what: str, *, required: bool = True) -> Callable[[F], F]:
    """Add `--clusters`, also in the singular; the command gets `clusters`, which are valid names if required."""
    return gathered(
        "clusters", lambda clusters: cluster_names(clusters) if required else split(clusters), _clusters_option(what)
    )


def cluster_arguments(verb: str, *, required: bool = True) -> Callable[[F], F]:
    """Let clusters be named as arguments, or by `--clusters`; the command gets `clusters`, which are valid names."""
    return gathered(
        "clusters",
        lambda names, clusters: cluster_names((*names, *clusters)) if required or names or clusters else (),
        argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete_clusters),
        _clusters_option(f"Names of the clusters to {verb}, separated by commas; the same as CLUSTER."),
    )


def _one_name(name: str, cluster_name: str) -> str:
    if name and cluster_name and name != cluster_name:
        raise click.UsageError(f"CLUSTER is {name}, and --cluster-name is {cluster_name}: give one of them")
    return name or cluster_name


own_cluster_name = gathered(
    "cluster_name",
    _one_name,
    argument("name", metavar="[CLUSTER]", default=""),
    named(
        "--cluster-name",
        "--cluster",
        "cluster_name",
        default="",
        help="Name of this cluster on the hub; the same as CLUSTER.",
    ),
)
"""Lets the one cluster be named as `--cluster-name` or as an argument; the command gets `cluster_name`."""


def cluster_options(
    *, dry_run: str | bool = False, asks: bool = False, wait: str = "", also: str = "", output: bool = False
) -> Callable[[F], F]:
    """Add what most commands share: `change_options`, `wait_options`, `output_option` and `connection_options`."""
    described = DRY_RUN if dry_run is True else dry_run
    return with_options(
        *([change_options(described, asks=asks)] if described else []),
        *([wait_options(wait, also=also)] if wait else []),
        *([output_option()] if output else []),
        connection_options,
    )
