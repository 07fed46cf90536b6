"""`watchword rotate`: renews credentials before their time."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from watchword.admin.errors import NotFoundOnHub, NotReady
from watchword.admin.rotate import KINDS, CredentialRotator, Renewal
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import ObjectKey
from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import ClusterConnection, cluster_arguments, cluster_options, clusters_option
from watchword.cli.options import F, argument, duration, flag, many, named, text, with_options
from watchword.cli.output import confirm, echo, print_progress
from watchword.health.formatting import format_count
from watchword.health.hub_reader import require_hub
from watchword.runtime.clock import SystemClock

Choose = Callable[[CredentialRotator], Awaitable[Sequence[Renewal]]]


def renewal_options(command: F) -> F:
    """Add the flags that all kinds share; the command returns what chooses the credentials, which are renewed."""

    @with_options(
        flag("--no-wait", help="Do not wait for the renewal."),
        duration("--timeout", "patience", default="2m", help="Time limit of the wait."),
        cluster_options(dry_run="Print what would be renewed without changing anything.", asks=True),
    )
    @wraps(command)
    def renewing(*args: Any, connection: ClusterConnection, **kwargs: Any) -> Any:
        own = {name: kwargs.pop(name) for name in ("no_wait", "patience", "yes", "dry_run")}
        choose: Choose | None = command(*args, **kwargs)
        return None if choose is None else _renew(connection, choose, **own)  # None: a kind was named

    return renewing  # type: ignore[return-value]  # a command stays a command


async def _renew(
    connection: ClusterConnection, choose: Choose, patience: timedelta, *, no_wait: bool, yes: bool, dry_run: bool
) -> int:
    """Request all, then wait for each; what did not renew in time is named and does not hide the others."""
    async with connection.client() as client:
        rotator = CredentialRotator(client, SystemClock(), print_progress)
        renewals = await choose(rotator)
        if dry_run:
            echo("\n".join(f"{renewal.what}: would be asked to renew" for renewal in renewals) or "nothing to renew")
            return ExitCode.DONE
        if len(renewals) > 1:
            confirm(f"Renew {format_count(len(renewals), 'credential')}?", "", yes=yes, needs_terminal=False)
        for renewal in renewals:
            await rotator.request(renewal)
        if no_wait:
            echo("\n".join(f"{renewal.what}: asked to renew" for renewal in renewals))
            return ExitCode.DONE
        print_progress(f"requested {format_count(len(renewals), 'renewal')}; waiting for the reports")
        waiter, late = ObjectWaiter(client, patience, print_progress), 0
        for renewal in renewals:
            try:
                echo(f"{renewal.what}: {await rotator.wait(renewal, waiter)}")
            except NotReady as error:
                echo(f"{renewal.what}: {error}", err=True)
                late += 1
    return ExitCode.UNREACHABLE if late else ExitCode.DONE


@click.group("rotate", invoke_without_command=True)
@flag("--all", "everything", help="Renew the credentials of all clusters, add-ons and accounts.")
@text("--selector", "-l", help="Label selector of clusters: renew credentials of them, their add-ons and accounts.")
@many("--kind", "kinds", type=click.Choice(KINDS), help="Renew only credentials of this kind; repeatable.")
@renewal_options
@click.pass_context
def command(ctx: click.Context, *, everything: bool, selector: str, kinds: tuple[str, ...]) -> Choose | None:
    """Renew credentials now.

    The request goes through the hub. The holder keeps the old credential until it has the new one, and serves each
    request once. A holder that is offline renews when it reconnects.
    """
    if ctx.invoked_subcommand is not None:
        for each in ctx.command.params:  # a flag that the kind does not see: --dry-run would have no effect
            if each.name and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"give {each.opts[0]} after `rotate {ctx.invoked_subcommand}`")
        return None
    if not (everything or selector or kinds):
        raise click.UsageError("say what to renew: a kind and names, --all, --selector or --kind")

    async def choose(rotator: CredentialRotator) -> list[Renewal]:
        await require_hub(rotator.client)
        found = await rotator.select(kinds or KINDS, selector)
        if not found:
            raise NotFoundOnHub("nothing of this hub matches that could be renewed: `watchword status` lists all")
        return found

    return choose


@command.command("cluster")
@cluster_arguments("renew")
@renewal_options
def cluster(clusters: tuple[str, ...]) -> Choose:
    """Renew the credentials of clusters."""
    return lambda rotator: rotator.clusters(clusters)


@command.command("addon")
@argument("names", nargs=-1, required=True, metavar="ADDON...")
@clusters_option("Names of the clusters, separated by commas.")
@renewal_options
def addon(names: tuple[str, ...], clusters: tuple[str, ...]) -> Choose:
    """Renew the credentials of add-ons on clusters."""
    keys = [ObjectKey(cluster, name) for cluster in clusters for name in names]
    return lambda rotator: rotator.addons(keys)


@command.command("serviceaccount")
@argument("names", nargs=-1, required=True, metavar="NAME...")
@named("--namespace", "-n", required=True, help="Namespace of a cluster, or one bound to a cluster set.")
@renewal_options
def serviceaccount(names: tuple[str, ...], namespace: str) -> Choose:
    """Renew the tokens of managed service accounts, on all their clusters."""

    async def choose(rotator: CredentialRotator) -> list[Renewal]:
        return [each for name in names for each in await rotator.account(ObjectKey(namespace, name))]

    return choose
