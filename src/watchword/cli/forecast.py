"""`watchword forecast`: what would break soon if nothing were renewed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click

from watchword.cli.common_options import format_document, output_option
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import option
from watchword.cli.output import echo, render_table, terminal_width
from watchword.health.formatting import format_renewal, format_time_left
from watchword.health.hub_reader import read_inventory
from watchword.health.inventory import ExpiringCredential, count_unknown_expiry, credential_document, forecast_expiry
from watchword.health.inventory_rows import Inventory
from watchword.runtime.event_loop import run


@click.command("forecast")
@option("--days", type=click.IntRange(1, 36500), default=7, help="Number of days to look ahead.")
@output_option()
@connection_options
def command(connection: ClusterConnection, days: int, output: str) -> None:
    """List credentials that expire soon.

    Working holders renew long before; one that is listed every day does not.
    """
    now = datetime.now(UTC)
    inventory = run(_read(connection, now))
    expiring = forecast_expiry(inventory, now=now, within=timedelta(days=days))
    for what, why in (*inventory.unseen.items(), *inventory.unreadable.items()):
        echo(f"not foreseen: {what} ({why})", err=True)
    if output != "table":
        echo(format_document([_document(credential, now) for credential in expiring], output), nl=False)
        return
    if expiring:
        echo(_table(expiring, now), nl=False)
    else:
        echo(f"nothing of {len(inventory.credentials)} credentials ends within {days} days")
    unknown = count_unknown_expiry(inventory)
    if unknown:
        echo(f"credentials that do not say when they end: {unknown}; `watchword status` names them", err=True)


async def _read(connection: ClusterConnection, now: datetime) -> Inventory:
    async with connection.client() as client:
        return await read_inventory(client, now)


def _table(expiring: Sequence[ExpiringCredential], now: datetime) -> str:
    rows = [
        (
            format_time_left(each.ends, now),
            each.row.kind,
            each.row.holder,
            format_renewal(each.row, now),
            each.consequence,
        )
        for each in expiring
    ]
    headers = ("ENDS IN", "CREDENTIAL", "HOLDER", "TO BE RENEWED", "THEN")
    return render_table(headers, rows, width=terminal_width())


def _document(credential: ExpiringCredential, now: datetime) -> dict[str, object]:
    return {
        **credential_document(credential.row, now),
        "consequence": credential.consequence,
        "renewalAnnounced": credential.renewed_before,
    }
