"""`watchword serviceaccount`: managed service accounts, whose tokens are at the hub."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from watchword.api.meta import Object, ObjectKey
from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import ClusterConnection, cluster_options, clusters_option, connection_options
from watchword.cli.lists import ListRequest, list_options
from watchword.cli.options import NewFile, argument, flag, many, named, option, parse_duration_flag, split
from watchword.cli.output import confirm, echo, print_progress, show_result, without_managed_fields

if TYPE_CHECKING:
    import asyncio

    from watchword.accounts.tokens import AccountToken, TokenChange
    from watchword.admin.revoke.revocation import Refusal
    from watchword.admin.service_accounts import ServiceAccountAdmin
    from watchword.kube.client import Client
    from watchword.kube.kubeconfig import Kubeconfig


@click.command("kubeconfig")
@argument("name")
@named("--cluster", required=True, help="Name of the cluster to connect to.")
@named("--namespace", "-n", default="", help="Namespace of the account; by default that of the cluster.")
@click.option(
    "--file", "path", type=NewFile(), help="Write the kubeconfig to this file (0600) instead of standard output."
)
@flag("--exec", "as_exec", help="Use an exec plugin that reads the token from the hub instead of storing it.")
@connection_options
async def kubeconfig(connection: ClusterConnection, name: str, path: Path | None, **flags: Any) -> None:
    """Write a kubeconfig that reaches a cluster as the account.

    Without --exec it holds the token and works until that expires. With --exec it holds no secret and works as
    long as the account lives.
    """
    from watchword.kube.kubeconfig_files import dump_kubeconfig, write_kubeconfig

    config = await _config_with_token(connection, name, flags)
    if path is not None:
        write_kubeconfig(path, config)
        echo(f"wrote {path}", err=True)
    elif flags["as_exec"]:
        echo(dump_kubeconfig(config).decode(), nl=False)
    else:
        raise click.UsageError("name a file for the token with --file, or use --exec, which writes no secret")


async def _config_with_token(connection: ClusterConnection, name: str, flags: dict[str, Any]) -> Kubeconfig:
    from watchword.admin.errors import OperationRefused
    from watchword.kube.exec_plugin import ExecPlugin
    from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry

    cluster, namespace = flags["cluster"], flags["namespace"]
    token = await _find_token(connection, name, cluster, namespace)
    if not token.server:
        raise OperationRefused(f"nothing says where cluster {cluster} is: set managedClusterClientConfigs of it")
    user = UserEntry(token=token.token)
    if flags["as_exec"]:
        arguments = ["serviceaccount", "exec-credential", name, "--cluster", cluster]
        arguments += ["--namespace", namespace] if namespace else []
        arguments += ["--kubeconfig", str(connection.kubeconfig.resolve())] if connection.kubeconfig else []
        arguments += ["--context", connection.context] if connection.context else []
        user = UserEntry(plugin=ExecPlugin("watchword", tuple(arguments), interactive_mode="Never"))
    return Kubeconfig.single(cluster, ClusterEntry(token.server, ca_data=token.ca), user)


@click.command("exec-credential")
@argument("name")
@named("--cluster", default="", help="Name of the cluster; by default from KUBERNETES_EXEC_INFO.")
@named("--namespace", "-n", default="", help="Namespace of the account; by default that of the cluster.")
@connection_options
async def exec_credential(connection: ClusterConnection, name: str, cluster: str, namespace: str) -> None:
    """Print the account's token as an ExecCredential."""
    import orjson

    from watchword.accounts import exec_credential as plugin

    version, named = plugin.read_exec_info(os.environ)
    if not (cluster or named):
        raise click.UsageError("name the cluster with --cluster: the client does not say which one it means")
    token = await _find_token(connection, name, cluster or named, namespace)
    echo(orjson.dumps(plugin.exec_credential(token.token, token.expires_at, version)).decode())


@click.command("grant")
@argument("name")
@named("--namespace", "-n", required=True, help="Namespace of the account.")
@click.option("--cluster-role", required=True, help="ClusterRole on the clusters, for example view.")
@many("--in", "namespaces", help="Namespaces on the clusters, separated by commas; all by default.")
@clusters_option("Names of clusters, separated by commas; all by default.", required=False)
@flag("--remove", help="Remove the role on all clusters.")
@cluster_options(dry_run="Print what would change without changing anything.", wait="the clusters have applied it")
async def grant(connection: ClusterConnection, name: str, wait: timedelta | None, **flags: Any) -> None:
    """Give the account a ClusterRole on its clusters, by ManifestWork, and on clusters that get it later.

    The work agent of a cluster grants only what it may do itself. By default it may do what the role admin
    allows in every namespace: use --in, or run what --wait prints on the cluster, once.
    """
    from watchword.accounts.grants import AccountRight

    key = ObjectKey(flags["namespace"], name)
    right = AccountRight(flags["cluster_role"], split(flags["namespaces"]), tuple(sorted(flags["clusters"])))
    if flags["remove"] and (right.namespaces or right.clusters):
        raise click.UsageError("--remove takes the role back on all clusters: leave --clusters and --in out")
    async with _admin(connection) as admin:
        if flags["dry_run"]:
            await admin.get(key)
            verb = "lose" if flags["remove"] else "be given"
            clusters = [each for each in await admin.clusters(key) if each in (right.clusters or (each,))]
            lines = [f"account {name} would {verb} {right.role} on {each}" for each in clusters]
        elif flags["remove"]:
            await admin.withdraw(key, right.role)
            lines = [f"account {name} no longer has {right.role}"]
        else:
            works = await admin.grant(key, right)
            if wait is not None:
                await admin.wait_until_granted(works, right, wait)
            lines = [f"account {name} is given {right.role} on {granting.namespace}" for granting in works]
    echo("".join(f"{line}\n" for line in lines), nl=False)


@click.command("export")
@click.argument("tool", type=click.Choice(("argocd", "clusterprofile")))
@argument("name")
@named("--namespace", "-n", default="", help="Namespace of the account; by default those of all clusters.")
@click.option("--to-namespace", required=True, help="Namespace on this hub in which the tool looks for clusters.")
@connection_options
def export(connection: ClusterConnection, tool: str, name: str, namespace: str, to_namespace: str) -> None:
    """Export the clusters of an account to a tool on the hub, until stopped.

    argocd: one cluster Secret for each cluster, with the newest token. clusterprofile: one ClusterProfile for
    each cluster, without a secret; clients run `watchword serviceaccount exec-credential` for the token.
    """
    from watchword.accounts.exports import ArgoExporter, ClusterProfileExporter, run_export
    from watchword.cli.process_options import run_process
    from watchword.runtime.event_loop import run_until_stopped

    def report(change: TokenChange, problem: str) -> None:
        echo(f"{change.cluster}: {problem or type(change).__name__}", err=True)

    async def work(client: Client, stop: asyncio.Event) -> None:
        kind = ArgoExporter if tool == "argocd" else ClusterProfileExporter
        exporter = kind(client, ObjectKey(namespace, name), to_namespace)
        await run_until_stopped(stop, run_export(client, name, exporter, namespace=namespace, report=report))

    run_process(connection, work)


async def _find_token(connection: ClusterConnection, name: str, cluster: str, namespace: str) -> AccountToken:
    async with _admin(connection) as admin:
        return await admin.token(ObjectKey(namespace or cluster, name), cluster)


COLUMNS = ("NAME", "NAMESPACE", "PRESENT", "CLUSTERS", "EXPIRES")
WIDE = ("RENEWAL", "AUDIENCES")


@click.group("serviceaccount")
def command() -> None:
    """Create, show and revoke managed service accounts.

    An account in the namespace of a cluster is on that cluster; an account in a namespace that is bound to a
    cluster set is on every cluster of the set.
    """


for _verb in (kubeconfig, grant, export, exec_credential):
    command.add_command(_verb)


_namespace_option = named(
    "--namespace", "-n", required=True, help="Namespace of a cluster, or one bound to a cluster set."
)


@command.command("create")
@argument("name")
@_namespace_option
@many("--audiences", help="Audiences of the token, separated by commas; by default that of the API server.")
@option("--validity", default="24h", help="Lifetime of each token.")
@flag("--no-rotation", help="Do not renew the token before it expires.")
@named("--ttl", default="", help="Delete the account after this time; never by default.")
@cluster_options(dry_run=True, wait="the token is at the hub", output=True)
async def create(connection: ClusterConnection, name: str, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Create an account; one that exists stays as it is."""
    parse_duration_flag(flags["validity"], "--validity")
    rotation = {"enabled": not flags["no_rotation"], "validity": flags["validity"]}
    spec: Object = {"rotation": rotation}
    if flags["audiences"]:
        spec["audiences"] = list(split(flags["audiences"]))
    if flags["ttl"]:
        spec["ttlSecondsAfterCreation"] = int(parse_duration_flag(flags["ttl"], "--ttl").total_seconds())
    key = ObjectKey(flags["namespace"], name)
    async with _admin(connection) as admin:
        made, found = await admin.create(key, spec, dry_run=flags["dry_run"])
        if wait is not None and not flags["dry_run"]:
            found = await admin.wait_until_reported(key, wait)
    state = f"{'would be created' if flags['dry_run'] else 'created'}" if made else "exists already"
    show_result(without_managed_fields(found), output, lambda: f"account {name} {state} in {key.namespace}")


@command.command("list")
@list_options("List only the accounts of this namespace.")
@connection_options
def list_(connection: ClusterConnection, request: ListRequest) -> None:
    """List accounts: namespace, clusters and token expiry."""
    from watchword.admin.service_accounts import ServiceAccountAdmin
    from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
    from watchword.cli.lists import object_listing, print_list

    listing = object_listing(
        MANAGED_SERVICE_ACCOUNTS,
        COLUMNS,
        account_row,
        wide=WIDE,
        read=lambda client, asked: ServiceAccountAdmin(client).find_all(asked.namespace, asked.selector),
    )
    print_list(connection, listing, request)


@command.command("show")
@argument("name")
@_namespace_option
@cluster_options(output=True)
async def show(connection: ClusterConnection, name: str, namespace: str, output: str) -> None:
    """Show one account: its clusters and conditions, never its token."""
    async with _admin(connection) as admin:
        found = await admin.get(ObjectKey(namespace, name))
    show_result(without_managed_fields(found), output, lambda: describe_account(found))


@command.command("delete")
@argument("names", nargs=-1, required=True, metavar="NAME...")
@_namespace_option
@flag("--abandon", help="Do not wait for clusters that are unreachable; their tokens may stay valid.")
@cluster_options(
    dry_run="Print the clusters that would revoke the account without changing anything.",
    asks=True,
    wait="the account is revoked on every cluster",
)
async def delete(
    connection: ClusterConnection, names: tuple[str, ...], wait: timedelta | None, **flags: Any
) -> ExitCode:
    """Delete accounts: their tokens are revoked on every cluster.

    With --wait, the tokens are shown to their clusters until these refuse them, and the time is printed.
    """
    keys = [ObjectKey(flags["namespace"], name) for name in names]
    async with _admin(connection) as admin:
        for key in keys:
            await admin.get(key)
            if flags["dry_run"]:
                echo(f"account {key.name} would be revoked on {', '.join(await admin.clusters(key)) or 'no cluster'}")
        if flags["dry_run"]:
            return ExitCode.DONE
        unproved = False
        confirm(f"Delete {', '.join(names)} and revoke the tokens?", "", yes=flags["yes"], needs_terminal=False)
        for key in keys:
            measured = wait is not None and not flags["abandon"]
            refusals = await admin.delete_measured(key, wait or timedelta(0)) if measured else []
            if not measured:
                await admin.delete(key, abandon=flags["abandon"])
            echo(f"account {key.name} deleted from {key.namespace}")
            for refusal in refusals:
                echo(describe_refusal(refusal))
                unproved = unproved or refusal.is_unproved
        return ExitCode.UNREACHABLE if unproved else ExitCode.DONE


def describe_refusal(refusal: Refusal) -> str:
    if refusal.before:
        return f"{refusal.holder}: refused its token before the deletion, too: is it for other audiences?"
    if refusal.seconds is None:
        return f"{refusal.holder}: no refusal of its token observed: {refusal.error}"
    return f"{refusal.holder}: token refused {refusal.seconds:.1f} s after the deletion"


def account_row(obj: Object, _: datetime | None = None) -> tuple[str, ...]:
    from watchword.api.conditions import find_condition
    from watchword.api.names import ConditionType

    status = obj.get("status") or {}
    said = find_condition(obj, ConditionType.ALL_ACCOUNTS_PRESENT)
    counts = status.get("clusters")
    clusters = f"{counts.get('present', 0)}/{counts.get('total', 0)}" if counts else "1"
    metadata = obj["metadata"]
    present = "-" if said is None else "yes" if said.status == "True" else said.reason
    return (
        metadata["name"],
        metadata["namespace"],
        present,
        clusters,
        status.get("expirationTimestamp") or "-",
        status.get("nextRenewalTimestamp") or "-",
        ",".join((obj.get("spec") or {}).get("audiences") or ()) or "-",
    )


def describe_account(obj: Object) -> str:
    from watchword.api.accounts import Account
    from watchword.api.conditions import conditions_of
    from watchword.api.time import parse_rfc3339
    from watchword.api.validation import format_duration

    account = Account.read(obj)
    status = obj.get("status") or {}
    expires = parse_rfc3339(str(status.get("expirationTimestamp") or ""))
    ended = " (expired)" if expires is not None and expires <= datetime.now(UTC) else ""
    lines = [
        f"Name:       {account.key.name}",
        f"Namespace:  {account.key.namespace}",
        f"Audiences:  {', '.join(account.audiences) or 'the API server of the cluster'}",
        f"Validity:   {format_duration(account.validity)}, {'renewed' if account.rotates else 'not renewed'}",
        f"Expires:    {status.get('expirationTimestamp') or '-'}{ended}",
        f"Renewal:    {status.get('nextRenewalTimestamp') or '-'}",
    ]
    for row in conditions_of(obj):
        lines.append(f"{row.get('type')}: {row.get('status')} ({row.get('reason')})")
        lines += [f"    {row['message']}"] if row.get("message") else []
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def _admin(connection: ClusterConnection) -> AsyncIterator[ServiceAccountAdmin]:
    from watchword.admin.service_accounts import ServiceAccountAdmin

    async with connection.client() as client:
        yield ServiceAccountAdmin(client, print_progress)
