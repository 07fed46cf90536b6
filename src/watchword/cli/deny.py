"""`watchword deny`: takes the rights from clusters, or turns a single request away."""

from datetime import timedelta
from typing import Any

import click

from watchword.admin.accept import HUB_RUNNING_HINT, AdmissionResult, HubAdmin, deny, deny_request, validate_denied
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli import common_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock


@click.command("deny")
@common_options.cluster_arguments("deny")
@click.option(
    "--request", "requests", multiple=True, help="Names of certificate requests to deny, separated by commas."
)
@common_options.change_options()
@common_options.wait_options("the rights are gone")
@common_options.output_option()
@connection_options
def command(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Deny clusters: remove their rights and deny their pending requests.

    The ManagedCluster and its namespace stay, so that the cluster can be accepted again; delete the ManagedCluster
    to remove everything. With --request, only that certificate request is denied.
    """
    requests = common_options.split(flags["requests"])
    if bool(requests) == bool(flags["clusters"]):
        raise click.UsageError("say what to deny: either clusters, by name, or --request NAME")
    names = () if requests else common_options.cluster_names(flags["clusters"])
    dry_run = flags["dry_run"]

    async def work(client: Client) -> list[AdmissionResult]:
        hub_admin = HubAdmin(client, SystemClock(), dry_run)
        decisions = [await deny(hub_admin, name) for name in names]
        decisions += [await deny_request(hub_admin, name) for name in requests]
        if wait is not None and not dry_run:
            waiter = ObjectWaiter(client, wait, print_progress)
            for name in names:
                await waiter.until(MANAGED_CLUSTERS, ObjectKey.cluster(name), validate_denied, advice=HUB_RUNNING_HINT)
        return decisions

    decisions = connection.run(work)
    documents = [_document(decision) for decision in decisions]
    common_options.show_result(
        documents, output, lambda: "\n".join(_sentence(each, dry_run=dry_run) for each in decisions)
    )


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
