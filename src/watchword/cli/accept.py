"""`watchword accept`: accepts clusters that have asked to join."""

from datetime import timedelta
from typing import Any

import click

from watchword.admin.accept import AdmissionResult, ClusterAcceptor, HubAdmin
from watchword.admin.wait import ObjectWaiter
from watchword.cli import common_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.cli.options import flag, text
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.health.formatting import format_key
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock


@click.command("accept")
@common_options.cluster_arguments("accept")
@click.option("--requesters", multiple=True, help="Further users whose requests are approved, separated by commas.")
@text("--request", help="Name of the certificate request to approve, when several are pending.")
@flag(
    "--skip-approve-check",
    help="Approve requests of any user, and accept without a request; label and subject must still match.",
)
@common_options.change_options()
@common_options.wait_options("the cluster has asked, and the hub has given it its rights")
@common_options.output_option()
@connection_options
def command(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Accept clusters that have asked to join.

    The certificate request is approved only if its label, subject and requester agree and a single key requests the
    name; otherwise nothing is changed and the difference is shown.
    """
    names = common_options.cluster_names(flags["clusters"])
    if flags["request"] and len(names) > 1:
        raise click.UsageError("--request belongs to one cluster: name just that one")
    terms = ApprovalTerms(
        frozenset(common_options.split(flags["requesters"])), flags["skip_approve_check"], flags["request"]
    )
    dry_run = flags["dry_run"]

    async def accept(client: Client) -> list[AdmissionResult]:
        acceptor = ClusterAcceptor(HubAdmin(client, SystemClock(), dry_run), terms, print_progress)
        if wait is not None and not dry_run:
            waiter = ObjectWaiter(client, wait, print_progress)
            return [await acceptor.accept_and_wait(name, waiter) for name in names]
        return [await acceptor.accept(name) for name in names]

    decisions = connection.run(accept)
    documents = [_document(decision) for decision in decisions]
    common_options.show_result(
        documents, output, lambda: "\n".join(_sentence(each, dry_run=dry_run) for each in decisions)
    )


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
