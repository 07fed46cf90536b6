"""`watchword deny`: takes the rights from clusters, or turns a single request away."""

from datetime import timedelta
from typing import Any

import click

from watchword.admin.accept import HUB_RUNNING_HINT, AdmissionResult, HubAdmin, deny, deny_request, validate_denied
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli.connection_options import ClusterConnection, cluster_arguments, cluster_options
from watchword.cli.options import many, split
from watchword.cli.output import print_progress, show_result
from watchword.runtime.clock import SystemClock


@click.command("deny")
@cluster_arguments("deny", required=False)
@many("--request", "requests", help="Names of certificate requests to deny, separated by commas.")
@cluster_options(dry_run=True, wait="the rights are gone", output=True)
async def command(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Deny clusters: remove their rights and deny their pending requests.

    The ManagedCluster and its namespace stay, so that the cluster can be accepted again; delete the ManagedCluster
    to remove everything. With --request, only that certificate request is denied.
    """
    names, requests = flags["clusters"], split(flags["requests"])
    if bool(requests) == bool(names):
        raise click.UsageError("say what to deny: either clusters, by name, or --request NAME")
    dry_run = flags["dry_run"]
    async with connection.client() as client:
        hub_admin = HubAdmin(client, SystemClock(), dry_run)
        decisions = [await deny(hub_admin, name) for name in names]
        decisions += [await deny_request(hub_admin, name) for name in requests]
        waiter = ObjectWaiter(client, wait or timedelta(0), print_progress)
        for name in names if wait is not None and not dry_run else ():
            await waiter.until(MANAGED_CLUSTERS, ObjectKey.cluster(name), validate_denied, advice=HUB_RUNNING_HINT)
    documents = [_document(decision) for decision in decisions]
    show_result(documents, output, lambda: "\n".join(_sentence(each, dry_run=dry_run) for each in decisions))


def _sentence(decision: AdmissionResult, *, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    turned_away = f"request {', '.join(decision.requests)} {would}denied" if decision.requests else ""
    if not decision.cluster:
        return turned_away or "the request was denied before"
    said = (
        f"cluster {decision.cluster} {would}denied" if decision.changed else f"cluster {decision.cluster} has no rights"
    )
    return f"{said}; {turned_away}" if turned_away else said


def _document(decision: AdmissionResult) -> dict[str, Any]:
    return {
        "cluster": decision.cluster,
        "accepted": False,
        "changed": decision.changed or bool(decision.requests),
        "deniedRequests": list(decision.requests),
    }
