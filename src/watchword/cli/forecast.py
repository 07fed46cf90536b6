"""`watchword forecast`: what would break soon if nothing were renewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.tables import render_table, terminal_width
from watchword.cli.verb_options import output_option, write_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchword.fleet.forecast import Outlook
    from watchword.fleet.inventory import Inventory


@click.command("forecast")
@click.option("--days", type=click.IntRange(1, 36500), default=7, show_default=True, help="How far to look ahead.")
@output_option()
@connection_options
def command(connection: Connection, days: int, output: str) -> None:
    """List what would break soon if nothing were renewed.

    Holders that keep their promises renew long before; whoever appears here every day does not.
    """
    from watchword.fleet.forecast import count_unforeseeable, foresee  # noqa: PLC0415 - help must not pay for it
    from watchword.runtime.loop import run  # noqa: PLC0415 - same

    now = datetime.now(UTC)
    inventory = run(_read(connection, now))
    outlooks = foresee(inventory, now=now, within=timedelta(days=days))
    for what, why in inventory.unseen.items():
        click.echo(f"not foreseen: {what} ({why})", err=True)
    if output != "table":
        click.echo(write_document([_document(outlook, now) for outlook in outlooks], output), nl=False)
        return
    if outlooks:
        click.echo(_table(outlooks, now), nl=False)
    else:
        click.echo(f"nothing of {len(inventory.credentials)} credentials ends within {days} days")
    unknown = count_unforeseeable(inventory)
    if unknown:
        click.echo(f"credentials that do not say when they end: {unknown}; `watchword status` names them", err=True)


async def _read(connection: Connection, now: datetime) -> Inventory:
    from watchword.fleet.inventory import take_inventory  # noqa: PLC0415 - help must not pay for it
    from watchword.fleet.reading import read_facts  # noqa: PLC0415 - same

    async with connection.client() as client:
        return take_inventory(await read_facts(client), now=now)


def _table(outlooks: Sequence[Outlook], now: datetime) -> str:
    from watchword.fleet.words import write_left, write_renewal  # noqa: PLC0415 - help must not pay for it

    rows = [
        (write_left(each.ends, now), each.row.kind, each.row.holder, write_renewal(each.row, now), each.consequence)
        for each in outlooks
    ]
    headers = ("ENDS IN", "CREDENTIAL", "HOLDER", "TO BE RENEWED", "THEN")
    return render_table(headers, rows, width=terminal_width())


def _document(outlook: Outlook, now: datetime) -> dict[str, object]:
    from watchword.fleet.documents import credential_document  # noqa: PLC0415 - help must not pay for it

    return {
        **credential_document(outlook.row, now),
        "consequence": outlook.consequence,
        "renewalAnnounced": outlook.renewed_before,
    }
