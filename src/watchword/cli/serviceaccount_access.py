"""`watchword serviceaccount …`: what lets people and programs use an account on its clusters."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from watchword.cli.common_options import split, wait_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.cli.output import echo

if TYPE_CHECKING:
    from watchword.accounts.exports import Exporter
    from watchword.accounts.tokens import AccountToken, TokenChange
    from watchword.kube.client import Client
    from watchword.kube.kubeconfig import Kubeconfig

PROVIDER_COMMAND = "watchword"


@click.command("kubeconfig")
@click.argument("name")
@click.option("--cluster", required=True, help="The cluster to be reached.")
@click.option("--namespace", "-n", default="", help="The namespace of the account; by default that of the cluster.")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Write it there, readable by you alone.")
@click.option("--exec", "as_exec", is_flag=True, help="With a plugin that reads the token from the hub each time.")
@connection_options
def kubeconfig(connection: ClusterConnection, name: str, path: Path | None, **flags: Any) -> None:
    """Write a kubeconfig that reaches a cluster as the account.

    Without --exec it holds the token and works until that expires. With --exec it holds no secret and works as
    long as the account lives.
    """
    from watchword.kube.kubeconfig_files import dump_kubeconfig, write_kubeconfig

    config = _config_with_token(connection, name, flags)
    if path is not None:
        write_kubeconfig(path, config)
        echo(f"wrote {path}", err=True)
    elif flags["as_exec"]:
        echo(dump_kubeconfig(config).decode(), nl=False)
    else:
        raise click.UsageError("name a file for the token with --file, or use --exec, which writes no secret")


def _config_with_token(connection: ClusterConnection, name: str, flags: dict[str, Any]) -> Kubeconfig:
    from watchword.admin.errors import OperationRefused
    from watchword.kube.exec_plugin import ExecPlugin
    from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry

    cluster, namespace = flags["cluster"], flags["namespace"]
    token = _find_token(connection, name, cluster, namespace)
    if not token.server:
        raise OperationRefused(f"nothing says where cluster {cluster} is: set managedClusterClientConfigs of it")
    user = UserEntry(token=token.token)
    if flags["as_exec"]:
        arguments = ["serviceaccount", "exec-credential", name, "--cluster", cluster]
        arguments += ["--namespace", namespace] if namespace else []
        arguments += ["--kubeconfig", str(connection.kubeconfig.resolve())] if connection.kubeconfig else []
        arguments += ["--context", connection.context] if connection.context else []
        user = UserEntry(plugin=ExecPlugin(PROVIDER_COMMAND, tuple(arguments), interactive_mode="Never"))
    return Kubeconfig.single(cluster, ClusterEntry(token.server, ca_data=token.ca), user)


@click.command("exec-credential")
@click.argument("name")
@click.option("--cluster", default="", help="The cluster; by default the one that the client names.")
@click.option("--namespace", "-n", default="", help="The namespace of the account; by default that of the cluster.")
@connection_options
def exec_credential(connection: ClusterConnection, name: str, cluster: str, namespace: str) -> None:
    """Print the account's token with its expiry, as clients expect it of a credential plugin."""
    import orjson

    from watchword.accounts import exec_credential as plugin

    version, named = plugin.read_exec_info(os.environ)
    if not (cluster or named):
        raise click.UsageError("name the cluster with --cluster: the client does not say which one it means")
    token = _find_token(connection, name, cluster or named, namespace)
    echo(orjson.dumps(plugin.exec_credential(token, version)).decode())


@click.command("grant")
@click.argument("name")
@click.option("--namespace", "-n", required=True, help="The namespace of the account.")
@click.option("--cluster-role", required=True, help="The ClusterRole on the clusters, such as view.")
@click.option("--in", "namespaces", multiple=True, help="Only in these namespaces of the clusters, by commas.")
@click.option("--clusters", "-c", multiple=True, help="Only on these clusters; several, separated by commas.")
@click.option("--remove", is_flag=True, help="Take the role back, on all clusters.")
@wait_options("the clusters have applied it")
@connection_options
def grant(connection: ClusterConnection, name: str, wait: timedelta | None, **flags: Any) -> None:
    """Give the account a ClusterRole on its clusters, by ManifestWork, and on clusters that get it later.

    The work agent of a cluster grants only what it may do itself. By default it may do what the role admin
    allows in every namespace: use --in, or run what --wait prints on the cluster, once.
    """
    from watchword.accounts.grants import AccountRight
    from watchword.admin.service_accounts import ServiceAccountAdmin
    from watchword.api.meta import ObjectKey
    from watchword.runtime.event_loop import run

    key = ObjectKey(flags["namespace"], name)
    right = AccountRight(flags["cluster_role"], split(flags["namespaces"]), tuple(sorted(split(flags["clusters"]))))

    async def work() -> list[ObjectKey]:
        async with connection.client() as client:
            admin = ServiceAccountAdmin(client, print_progress)
            if flags["remove"]:
                await admin.withdraw(key, right.role)
                return []
            works = await admin.grant(key, right)
            for granting in works if wait is not None else ():
                await admin.wait_until_granted(granting, right, wait or timedelta(0))
            return works

    works = run(work())
    if flags["remove"]:
        echo(f"account {name} no longer has {right.role}")
    for granting in works:
        echo(f"account {name} is given {right.role} on {granting.namespace}")


@click.command("export")
@click.argument("tool", type=click.Choice(("argocd", "clusterprofile")))
@click.argument("name")
@click.option("--namespace", "-n", default="", help="The namespace of the account; by default those of all clusters.")
@click.option("--to-namespace", required=True, help="Where the tool looks for its clusters on this hub.")
@connection_options
def export(connection: ClusterConnection, tool: str, name: str, **flags: Any) -> None:
    """Tell a tool on the hub of every cluster that has the account, until stopped.

    argocd: one cluster Secret for each cluster, with the newest token. clusterprofile: one ClusterProfile for
    each cluster, without a secret; clients run `watchword serviceaccount exec-credential` for the token.
    """
    from watchword.cli.process_options import run_until_stopped

    run_until_stopped(lambda stop: _export(connection, tool, name, flags, stop))


async def _export(
    connection: ClusterConnection, tool: str, name: str, flags: dict[str, Any], stop: asyncio.Event
) -> None:
    from watchword.accounts.exports import run_export
    from watchword.runtime.tasks import run_until_stopped

    def report(change: TokenChange) -> None:
        echo(f"{change.cluster}: {type(change).__name__}", err=True)

    async with connection.client() as client:
        exporter = make_exporter(tool, client, flags["to_namespace"])
        work = run_export(client, name, exporter, namespace=flags["namespace"], report=report)
        await run_until_stopped(stop, work)


def make_exporter(tool: str, client: Client, namespace: str) -> Exporter:
    """Return who writes clusters for a tool."""
    from watchword.accounts.exports import ArgoExporter, ClusterProfileExporter

    return ArgoExporter(client, namespace) if tool == "argocd" else ClusterProfileExporter(client, namespace)


def _find_token(connection: ClusterConnection, name: str, cluster: str, namespace: str) -> AccountToken:
    from watchword.admin.service_accounts import ServiceAccountAdmin
    from watchword.api.meta import ObjectKey
    from watchword.runtime.event_loop import run

    async def work() -> AccountToken:
        async with connection.client() as client:
            return await ServiceAccountAdmin(client).token(ObjectKey(namespace or cluster, name), cluster)

    return run(work())
