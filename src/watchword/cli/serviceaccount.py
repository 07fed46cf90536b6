"""`watchword serviceaccount`: managed service accounts, whose tokens are at the hub."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from watchword.cli.common_options import format_document, output_option, split, wait_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.cli.output import echo
from watchword.cli.serviceaccount_access import exec_credential, export, grant, kubeconfig
from watchword.cli.tables import render_table, terminal_width

if TYPE_CHECKING:
    from watchword.admin.revoke.refusals import Refusal
    from watchword.admin.service_accounts import ServiceAccountAdmin
    from watchword.api.meta import Object, ObjectKey

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = ("NAME", "NAMESPACE", "PRESENT", "CLUSTERS", "EXPIRES")


@click.group("serviceaccount")
def command() -> None:
    """Make, look at and revoke managed service accounts.

    An account in the namespace of a cluster is on that cluster; an account in a namespace that is bound to a
    cluster set is on every cluster of the set.
    """


for _verb in (kubeconfig, grant, export, exec_credential):
    command.add_command(_verb)


def _namespace_option(command: F) -> F:
    return click.option("--namespace", "-n", required=True, help="The namespace of a cluster, or of a cluster set.")(
        command
    )


@command.command("create")
@click.argument("name")
@_namespace_option
@click.option("--audiences", multiple=True, help="For whom the token is valid; several, separated by commas.")
@click.option("--validity", default="24h", show_default=True, help="How long each token lives.")
@click.option("--no-rotation", is_flag=True, help="Do not renew the token before it expires.")
@click.option("--ttl", default="", help="Delete the account after this time.")
@wait_options("the token is at the hub")
@output_option()
@connection_options
def create(connection: ClusterConnection, name: str, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Create an account; one that exists stays as it is."""
    from watchword.cli.discovery_options import parse_duration_flag

    rotation = {"enabled": not flags["no_rotation"], "validity": flags["validity"]}
    spec: Object = {"rotation": rotation}
    if flags["audiences"]:
        spec["audiences"] = list(split(flags["audiences"]))
    if flags["ttl"]:
        spec["ttlSecondsAfterCreation"] = int(parse_duration_flag(flags["ttl"], "--ttl").total_seconds())
    key = _key(flags["namespace"], name)

    async def work(admin: ServiceAccountAdmin) -> tuple[bool, Object]:
        made = await admin.create(key, spec)
        return made, await (admin.wait_until_reported(key, wait) if wait is not None else admin.get(key))

    made, found = _run(connection, work)
    if output != "table":
        echo(format_document(_plain(found), output), nl=False)
        return
    echo(f"account {name} {'created' if made else 'exists already'} in {key.namespace}")


@command.command("list")
@click.option("--namespace", "-n", default="", help="Only those of one namespace.")
@output_option()
@connection_options
def list_(connection: ClusterConnection, namespace: str, output: str) -> None:
    """List accounts: where they are, on how many clusters, until when their tokens live."""
    found = _run(connection, lambda admin: admin.find_all(namespace))
    if output != "table":
        echo(format_document([_plain(obj) for obj in found], output), nl=False)
        return
    echo(render_table(COLUMNS, [account_row(obj) for obj in found], width=terminal_width()), nl=False)


@command.command("show")
@click.argument("name")
@_namespace_option
@output_option()
@connection_options
def show(connection: ClusterConnection, name: str, namespace: str, output: str) -> None:
    """Show one account, and everything that is said about it; never its token."""
    found = _run(connection, lambda admin: admin.get(_key(namespace, name)))
    text = describe_account(found) if output == "table" else format_document(_plain(found), output)
    echo(text, nl=False)


@command.command("delete")
@click.argument("name")
@_namespace_option
@click.option("--abandon", is_flag=True, help="Do not wait for clusters that cannot be reached; tokens may live on.")
@wait_options("the account is revoked on every cluster")
@connection_options
def delete(connection: ClusterConnection, name: str, wait: timedelta | None, **flags: Any) -> None:
    """Delete an account: its tokens are revoked on every cluster.

    With --wait, the tokens are shown to their clusters until these refuse them, and the time is printed.
    """
    key = _key(flags["namespace"], name)

    async def work(admin: ServiceAccountAdmin) -> list[Refusal]:
        if wait is not None and not flags["abandon"]:
            return await admin.delete_measured(key, wait)
        await admin.delete(key, abandon=flags["abandon"])
        return []

    refusals: list[Refusal] = _run(connection, work)
    echo(f"account {name} deleted from {key.namespace}")
    for refusal in refusals:
        echo(describe_refusal(refusal))


def describe_refusal(refusal: Refusal) -> str:
    """Return one line about what a cluster said of a deleted account's token."""
    if refusal.seconds is None:
        return f"{refusal.holder}: not measured when its token was refused: {refusal.trouble}"
    return f"{refusal.holder}: token refused {refusal.seconds:.1f} s after the deletion"


def account_row(obj: Object) -> tuple[str, ...]:
    """Return one line about an account."""
    from watchword.api.conditions import find_condition
    from watchword.api.names import ConditionType

    status = obj.get("status") or {}
    said = find_condition(obj, ConditionType.ALL_ACCOUNTS_PRESENT)
    counts = status.get("clusters")
    clusters = f"{counts.get('present', 0)}/{counts.get('total', 0)}" if counts else "1"
    metadata = obj["metadata"]
    present = "-" if said is None else "yes" if said.status == "True" else said.reason
    return metadata["name"], metadata["namespace"], present, clusters, status.get("expirationTimestamp") or "-"


def describe_account(obj: Object) -> str:
    """Return everything about one account, in lines."""
    from watchword.api.accounts import Account
    from watchword.api.conditions import conditions_of
    from watchword.api.validation import format_duration

    account = Account.read(obj)
    status = obj.get("status") or {}
    lines = [
        f"Name:       {account.key.name}",
        f"Namespace:  {account.key.namespace}",
        f"Audiences:  {', '.join(account.audiences) or 'the API server of the cluster'}",
        f"Validity:   {format_duration(account.validity)}, {'renewed' if account.rotates else 'not renewed'}",
        f"Expires:    {status.get('expirationTimestamp') or '-'}",
        f"Renewal:    {status.get('nextRenewalTimestamp') or '-'}",
    ]
    for row in conditions_of(obj):
        lines.append(f"{row.get('type')}: {row.get('status')} ({row.get('reason')})")
        lines += [f"    {row['message']}"] if row.get("message") else []
    return "\n".join(lines) + "\n"


def _key(namespace: str, name: str) -> ObjectKey:
    from watchword.api.meta import ObjectKey

    return ObjectKey(namespace, name)


def _plain(obj: Object) -> Object:
    from watchword.cli.cluster_output import without_managed_fields

    return without_managed_fields(obj)


def _run(connection: ClusterConnection, work: Callable[[ServiceAccountAdmin], Any]) -> Any:
    from watchword.admin.service_accounts import ServiceAccountAdmin
    from watchword.runtime.event_loop import run

    async def connected() -> Any:
        async with connection.client() as client:
            return await work(ServiceAccountAdmin(client, print_progress))

    return run(connected())
