"""`watchword accept`: accepts clusters that have asked to join."""

from functools import partial
from typing import Any

import click

from watchword.admin.accept import AdmissionResult, ClusterAcceptor, HubAdmin
from watchword.admin.wait import ObjectWaiter
from watchword.cli.connection_options import ClusterConnection, cluster_arguments, cluster_options
from watchword.cli.options import flag, many, named, split
from watchword.cli.output import print_progress, show_result
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.health.formatting import format_key
from watchword.runtime.clock import SystemClock


@click.command("accept")
@cluster_arguments("accept")
@many("--requesters", help="Further users whose requests are approved, separated by commas.")
@named("--request", default="", help="Name of the certificate request to approve, when several are pending.")
@flag(
    "--skip-approve-check",
    help="Approve requests of any user, and accept without a request; label and subject must still match.",
)
@cluster_options(dry_run=True, wait="the cluster has asked, and the hub has given it its rights", output=True)
async def command(connection: ClusterConnection, clusters: tuple[str, ...], output: str, **flags: Any) -> None:
    """Accept clusters that have asked to join.

    The certificate request is approved only if its label, subject and requester agree and a single key requests the
    name; otherwise nothing is changed and the difference is shown.
    """
    if flags["request"] and len(clusters) > 1:
        raise click.UsageError("--request belongs to one cluster: name just that one")
    terms = ApprovalTerms(frozenset(split(flags["requesters"])), flags["skip_approve_check"], flags["request"])
    wait, dry_run = flags["wait"], flags["dry_run"]
    async with connection.client() as client:
        acceptor = ClusterAcceptor(HubAdmin(client, SystemClock(), dry_run), terms, print_progress)
        waiter = ObjectWaiter(client, wait, print_progress) if wait is not None and not dry_run else None
        accept = acceptor.accept if waiter is None else partial(acceptor.accept_and_wait, waiter=waiter)
        decisions = [await accept(name) for name in clusters]
    documents = [_document(decision) for decision in decisions]
    show_result(documents, output, lambda: "\n".join(_sentence(each, dry_run=dry_run) for each in decisions))


def _sentence(decision: AdmissionResult, *, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    if not decision.changed and not decision.requests:
        return f"cluster {decision.cluster} was accepted before"
    key = f"; its key is {format_key(decision.key)}" if decision.key else ""
    return f"cluster {decision.cluster} {would}accepted{key}"


def _document(decision: AdmissionResult) -> dict[str, Any]:
    return {
        "cluster": decision.cluster,
        "accepted": True,
        "changed": decision.changed or bool(decision.requests),
        "approvedRequests": list(decision.requests),
        "keyThumbprint": decision.key,
    }
