"""`watchword forecast`: what would break soon if nothing were renewed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.lists import Listing, ListRequest, list_options, print_list, select_names
from watchword.cli.options import option
from watchword.cli.output import echo
from watchword.health.finding import finding_document
from watchword.health.formatting import format_renewal, format_time_left, format_timestamp
from watchword.health.hub_reader import read_hub_facts, require_fleet
from watchword.health.inventory import (
    ExpiringCredential,
    build_inventory,
    count_unknown_expiry,
    credential_document,
    forecast_expiry,
    keep_clusters,
)
from watchword.health.row_findings import expiry_finding
from watchword.kube.client import Client

COLUMNS = ("ENDS IN", "CREDENTIAL", "HOLDER", "TO BE RENEWED", "THEN")


@click.command("forecast")
@option("--days", type=click.IntRange(1, 36500), default=7, help="Number of days to look ahead.")
@list_options(watched=False)
@connection_options
def command(connection: ClusterConnection, days: int, request: ListRequest) -> None:
    """List credentials that expire soon.

    Working holders renew long before; one that is listed every day does not. What ends without a renewal is a
    finding, with the next command. --selector chooses clusters by their labels.
    """
    now = datetime.now(UTC)

    async def read(client: Client, request: ListRequest) -> Sequence[ExpiringCredential]:
        facts = require_fleet(await read_hub_facts(client))
        names = select_names(facts.clusters, request.selector)
        inventory = keep_clusters(build_inventory(facts, now=now), names)
        for what, why in (*inventory.unseen.items(), *inventory.unreadable.items()):
            echo(f"not foreseen: {what} ({why})", err=True)
        unknown = count_unknown_expiry(inventory)
        if unknown:
            echo(f"credentials that do not say when they end: {unknown}; `watchword status` names them", err=True)
        return forecast_expiry(inventory, now=now, within=timedelta(days=days))

    listing = Listing(
        resource=None,
        columns=COLUMNS,
        wide=("SUBJECT", "EXPIRES"),
        read=read,
        row=_cells,
        document=lambda each: _document(each, now),
        name=lambda each: each.row.holder,
        empty=f"no credential ends within {days} days",
    )
    print_list(connection, listing, request)


def _cells(each: ExpiringCredential, now: datetime) -> Sequence[str]:
    then = each.row.consequence
    if each.requires_action:
        then = f"{then}; next: {expiry_finding(each.row, each.ends).command}"
    left, renewal = format_time_left(each.ends, now), format_renewal(each.row, now)
    return (left, each.row.kind, each.row.holder, renewal, then, each.row.subject, format_timestamp(each.ends))


def _document(each: ExpiringCredential, now: datetime) -> dict[str, object]:
    finding = finding_document("forecast", expiry_finding(each.row, each.ends)) if each.requires_action else None
    return {
        **credential_document(each.row, now),
        "consequence": each.row.consequence,
        "renewalAnnounced": each.renewed_before,
        "finding": finding,
    }
