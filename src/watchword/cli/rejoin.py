"""`watchword rejoin`: brings a cluster back whose credential expired or was lost."""

from datetime import timedelta
from typing import Any

import click

from watchword.admin.accept import ClusterAcceptor, HubAdmin
from watchword.admin.bootstrap_access import require_joinable
from watchword.admin.errors import OperationRefused
from watchword.admin.join import KLUSTERLET, cluster_uid
from watchword.admin.rejoin import TakeOver, TakeOverCandidate, await_credential, replace_bootstrap_secret
from watchword.admin.unjoin import find_membership
from watchword.admin.wait import ObjectWaiter
from watchword.cli import common_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.cli.join import HubChoice, HubPlan, hub_access_options, within
from watchword.cli.options import flag, option, text, with_options
from watchword.cli.output import echo
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.health.formatting import format_key
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run

OPTIONS = (
    text("--cluster-name", "--cluster", "--clusters", "cluster_name", help="Name of the cluster on the hub; required."),
    flag("--take-over", help="On the hub: approve a new key for the name of an accepted cluster."),
    click.option("--requesters", multiple=True, help="With --take-over: further users whose requests are approved."),
    text("--request", help="With --take-over: name of the request to approve, when several are pending."),
    option(
        "--klusterlet-name", "klusterlet", default=KLUSTERLET, help="Name of the Klusterlet; a cluster has one per hub."
    ),
    text("--namespace", help="Namespace of the agent; by default the Klusterlet's."),
    common_options.change_options("Validate on both servers without changing anything.", asks=True),
)


@click.command("rejoin")
@hub_access_options
@with_options(*OPTIONS)
@common_options.wait_options("the agent holds a valid credential; on the hub, until a new key has asked", also="limit")
@common_options.output_option()
@connection_options
def command(connection: ClusterConnection, hub: HubChoice, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Rejoin a cluster whose credential expired or was lost.

    On the cluster it hands the agent a new token; the hub is named as for `join`. On the hub, with --take-over, it
    lets the new key have the name: the old certificate is not revoked, deny the cluster for that.
    """
    name = common_options.cluster_name(flags["cluster_name"])
    work = (
        _take_over(connection, name, wait, flags)
        if flags["take_over"]
        else _replace_bootstrap_secret(connection, hub(flags["limit"]), name, wait, flags)
    )
    document = run(within(flags["limit"], work))
    common_options.show_result(document, output, lambda: f"{name}: {document['state']}\n{document['next']}")


async def _replace_bootstrap_secret(
    connection: ClusterConnection, hub: HubPlan, name: str, wait: timedelta | None, flags: dict[str, Any]
) -> dict[str, Any]:
    dry_run = flags["dry_run"]
    async with connection.client() as client:
        membership = await find_membership(client, flags["klusterlet"], name, flags["namespace"])
        if membership is None:
            raise OperationRefused(f"this cluster has not joined as {name}: use `watchword join --cluster-name {name}`")
        access = await hub.find(print_progress)
        async with access.client() as joining:
            await require_joinable(joining, name, await cluster_uid(client))
        applied = await replace_bootstrap_secret(client, membership.namespace, access, dry_run=dry_run)
        if wait is not None and not dry_run:
            await await_credential(ObjectWaiter(client, wait, print_progress), membership.namespace, SystemClock())
    state = "would get a new token" if dry_run else "is back" if wait is not None else "has a new token"
    advice = (
        f"if its old certificate has expired, run on the hub: watchword rejoin --take-over --cluster-name {name}\n"
        "compare the key that it shows with the one that `watchword doctor` shows here"
    )
    return {"cluster": name, "state": state, "applied": [applied], "next": "" if wait is not None else advice}


async def _take_over(
    connection: ClusterConnection, name: str, wait: timedelta | None, flags: dict[str, Any]
) -> dict[str, Any]:
    async with connection.client() as client:
        terms = ApprovalTerms(frozenset(common_options.split(flags["requesters"])), chosen=flags["request"])
        work = TakeOver(
            ClusterAcceptor(HubAdmin(client, SystemClock(), flags["dry_run"]), terms, print_progress), print_progress
        )
        candidate = await work.candidate(name)
        if not flags["dry_run"]:
            _confirm(candidate, yes=flags["yes"])
        decision = await work.run(name, wait)
    return {
        "cluster": name,
        "state": f"{'would be' if flags['dry_run'] else 'is'} taken over by the key {format_key(decision.key)}",
        "approvedRequests": list(decision.requests),
        "keyThumbprint": decision.key,
        "next": "",
    }


def _confirm(candidate: TakeOverCandidate, *, yes: bool) -> None:
    if not yes:
        owner = f" (identity {candidate.owner})" if candidate.owner else ""
        echo(f"the name {candidate.cluster} belongs to a cluster that is accepted{owner}", err=True)
        for request in candidate.requests:
            echo(f"  {request.requester} asks for it with the key {format_key(request.key_thumbprint)}", err=True)
    common_options.confirm(
        "Let a new key have this name?", f"this gives the name {candidate.cluster} to another key", yes=yes
    )
