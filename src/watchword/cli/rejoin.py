"""`watchword rejoin`: brings a cluster back whose credential expired or was lost."""

from typing import Any

import click

from watchword.admin.accept import ClusterAcceptor, HubAdmin
from watchword.admin.bootstrap_access import require_joinable
from watchword.admin.errors import OperationRefused
from watchword.admin.join import KLUSTERLET, cluster_uid
from watchword.admin.rejoin import TakeOver, TakeOverCandidate, await_credential, replace_bootstrap_secret
from watchword.admin.unjoin import find_membership
from watchword.admin.wait import ObjectWaiter
from watchword.cli.connection_options import ClusterConnection, cluster_name, cluster_options
from watchword.cli.join import HubChoice, HubPlan, hub_access_options, within
from watchword.cli.options import flag, many, named, option, split, with_options
from watchword.cli.output import confirm, echo, print_progress, show_result
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.health.formatting import format_key
from watchword.runtime.clock import SystemClock

OPTIONS = (
    named(
        "--cluster-name",
        "--cluster",
        "--clusters",
        "cluster_name",
        default="",
        help="Name of the cluster on the hub; required.",
    ),
    flag("--take-over", help="On the hub: approve a new key for the name of a cluster that is accepted, or that left."),
    many("--requesters", help="With --take-over: further users whose requests are approved."),
    named("--request", default="", help="With --take-over: name of the request to approve, when several are pending."),
    option(
        "--klusterlet-name", "klusterlet", default=KLUSTERLET, help="Name of the Klusterlet; a cluster has one per hub."
    ),
    named("--namespace", default="", help="Namespace of the agent; by default the Klusterlet's."),
)


@click.command("rejoin")
@hub_access_options
@with_options(*OPTIONS)
@cluster_options(
    dry_run="Validate on both servers without changing anything.",
    asks=True,
    wait="the agent holds a valid credential; on the hub, until a new key has asked",
    also="limit",
    output=True,
)
async def command(connection: ClusterConnection, hub: HubChoice, output: str, **flags: Any) -> None:
    """Rejoin a cluster whose credential expired or was lost.

    On the cluster it hands the agent a new token; the hub is named as for `join`. On the hub, with --take-over, it
    lets the new key have the name: the old certificate is not revoked, deny the cluster for that.
    """
    name = cluster_name(flags["cluster_name"])
    work = (
        _take_over(connection, name, flags)
        if flags["take_over"]
        else _replace_bootstrap_secret(connection, hub(flags["limit"]), name, flags)
    )
    document = await within(flags["limit"], work)
    show_result(document, output, lambda: f"{name}: {document['state']}\n{document['next']}")


async def _replace_bootstrap_secret(
    connection: ClusterConnection, hub: HubPlan, name: str, flags: dict[str, Any]
) -> dict[str, Any]:
    wait, dry_run = flags["wait"], flags["dry_run"]
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


async def _take_over(connection: ClusterConnection, name: str, flags: dict[str, Any]) -> dict[str, Any]:
    async with connection.client() as client:
        terms = ApprovalTerms(frozenset(split(flags["requesters"])), chosen=flags["request"])
        acceptor = ClusterAcceptor(HubAdmin(client, SystemClock(), flags["dry_run"]), terms, print_progress)
        work = TakeOver(acceptor, print_progress)
        candidate = await work.candidate(name)
        if not flags["dry_run"]:
            _confirm(candidate, yes=flags["yes"])
        decision = await work.run(name, flags["wait"])
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
        state = "left" if candidate.left else "is accepted"
        echo(f"the name {candidate.cluster} belongs to a cluster that {state}{owner}", err=True)
        for request in candidate.requests:
            echo(f"  {request.requester} asks for it with the key {format_key(request.key_thumbprint)}", err=True)
    confirm("Let a new key have this name?", f"this gives the name {candidate.cluster} to another key", yes=yes)
