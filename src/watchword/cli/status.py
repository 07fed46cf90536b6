"""`watchword status`: who holds which credential until when."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.tables import render_table, terminal_width
from watchword.cli.verb_options import output_option, write_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchword.fleet.health import Health
    from watchword.fleet.inventory import CredentialRow, Inventory

WIDE = 150  # columns, from which on everything is shown
MOST_WELL = 20  # rows of a table that a terminal is shown, unless more of them need attention


class HasHealth(Protocol):
    """A row of any table."""

    @property
    def health(self) -> Health:
        """How it fares."""
        ...


Row = TypeVar("Row", bound=HasHealth)


@click.command("status")
@output_option("wide")
@click.option("--watch", "-w", is_flag=True, help="Stay, and show every change.")
@connection_options
def command(connection: Connection, output: str, watch: bool) -> None:  # noqa: FBT001 - a flag
    """Show who holds which credential until when.

    Clusters, add-ons and credentials of any hub, what needs attention first. What this user may not read is
    named, and the rest is shown.
    """
    from watchword.runtime.loop import run  # noqa: PLC0415 - help must not pay for it

    if watch:
        from contextlib import suppress  # noqa: PLC0415 - same

        with suppress(KeyboardInterrupt):
            run(_watch(connection, output))
    else:
        run(_show(connection, output))


async def _show(connection: Connection, output: str) -> None:
    from watchword.fleet.inventory import take_inventory  # noqa: PLC0415 - help must not pay for it
    from watchword.fleet.reading import read_facts  # noqa: PLC0415 - same

    async with connection.client() as client:
        facts = await read_facts(client)
    now = datetime.now(UTC)
    inventory = take_inventory(facts, now=now)
    _tell_unseen(inventory)
    width = terminal_width()
    click.echo(write_inventory(inventory, now, output, width), nl=False)
    if width is not None and output in ("table", "wide") and inventory.clusters:
        click.echo(f"\n{summarise(inventory)}")


async def _watch(connection: Connection, output: str) -> None:
    from watchword.fleet.observing import observing  # noqa: PLC0415 - help must not pay for it
    from watchword.fleet.reading import read_facts  # noqa: PLC0415 - same

    async with connection.client() as client:
        unseen = dict((await read_facts(client)).unseen)
        async with observing(client, unseen) as observer:
            await _follow(observer, output)


async def _follow(observer: Any, output: str) -> None:
    import asyncio  # noqa: PLC0415 - help must not pay for it
    import os  # noqa: PLC0415 - same

    from watchword.fleet.inventory import take_inventory  # noqa: PLC0415 - same
    from watchword.fleet.screen import Screen, Style, can_redraw, measure  # noqa: PLC0415 - same

    redraws = can_redraw(sys.stdout, os.environ) and output in ("table", "wide")
    screen = Screen(sys.stdout, color=False, size=lambda: measure(sys.stdout))
    last = ""
    try:
        while True:
            seen, now = observer.changes, datetime.now(UTC)
            inventory = take_inventory(observer.facts(), now=now)
            most = max(MOST_WELL // 5, measure(sys.stdout).rows // 3 - 4) if redraws else MOST_WELL
            text = write_inventory(inventory, now, output, terminal_width(), most=most)
            if redraws:
                lines = [summarise(inventory), "", *text.splitlines()]
                screen.draw([[(line, Style.PLAIN)] for line in lines])
            elif text != last:
                click.echo(text if not last else f"\n{text}", nl=False)
                sys.stdout.flush()
            last = text
            await asyncio.sleep(0.2)
            try:
                async with asyncio.timeout(1 if redraws else None):
                    await observer.change(seen)
            except TimeoutError:
                continue
    finally:
        screen.close()


def write_inventory(inventory: Inventory, now: datetime, form: str, width: int | None, *, most: int = MOST_WELL) -> str:
    """Return everything as tables, or as a document; a terminal is spared most of what is well."""
    if form in ("json", "yaml"):
        from watchword.fleet.documents import inventory_document  # noqa: PLC0415 - help must not pay for it

        return write_document(inventory_document(inventory, now), form)
    wide = form == "wide" or width is None or width >= WIDE
    shown = inventory if form == "wide" or width is None else choose_shown(inventory, most)
    parts = [
        _clusters(shown, width) + _remainder(inventory.clusters, shown.clusters),
        _addons(shown, width) + _remainder(inventory.addons, shown.addons),
        _credentials(shown, now, width, wide=wide) + _remainder(inventory.credentials, shown.credentials),
    ]
    return "\n".join(part for part in parts if part) or _nothing(inventory)


def choose_shown(inventory: Inventory, most: int) -> Inventory:
    """Return every row that needs attention or soon will, and so many of the others that a table has that many."""

    def piece(rows: Sequence[Row]) -> Sequence[Row]:
        return rows[: max(most, sum(row.health.is_news for row in rows))]

    return replace(
        inventory,
        clusters=piece(inventory.clusters),
        addons=piece(inventory.addons),
        credentials=piece(inventory.credentials),
    )


def _remainder(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    left = len(rows) - len(shown)
    return f"and {left} more, all well: -o wide shows them\n" if left else ""


def summarise(inventory: Inventory) -> str:
    """Say in one line how much there is, and how much of it needs attention."""
    from watchword.fleet.words import write_count  # noqa: PLC0415 - help must not pay for it

    tables = (
        ("cluster", inventory.clusters),
        ("add-on", inventory.addons),
        ("credential", inventory.credentials),
    )
    there = ", ".join(write_count(len(rows), noun) for noun, rows in tables if rows)
    troubles = [
        write_count(count, noun) for noun, rows in tables if (count := sum(row.health.is_trouble for row in rows))
    ]
    return f"{there}: {' and '.join(troubles)} to look at" if troubles else f"{there}: all well"


def _nothing(inventory: Inventory) -> str:
    """Say why nothing is shown: there is nothing, or it may not be seen."""
    if "clusters" in inventory.unseen:
        return f"clusters cannot be listed: {inventory.unseen['clusters']}\n"
    return "there are no clusters: `watchword token create` invites one\n"


def _clusters(inventory: Inventory, width: int | None) -> str:
    rows = [(r.name, r.accepted, r.joined, r.available, r.health.word, r.note or "-") for r in inventory.clusters]
    return (
        render_table(("CLUSTER", "ACCEPTED", "JOINED", "AVAILABLE", "HEALTH", "NOTE"), rows, width=width)
        if rows
        else ""
    )


def _addons(inventory: Inventory, width: int | None) -> str:
    rows = [
        (r.name, r.cluster, r.driver or "-", r.credential, r.available, r.health.word, r.note or "-")
        for r in inventory.addons
    ]
    headers = ("ADD-ON", "CLUSTER", "DRIVER", "CREDENTIAL", "AVAILABLE", "HEALTH", "NOTE")
    return render_table(headers, rows, width=width) if rows else ""


def _credentials(inventory: Inventory, now: datetime, width: int | None, *, wide: bool) -> str:
    from watchword.fleet.words import write_day, write_left, write_renewal  # noqa: PLC0415 - help must not pay for it

    def cells(row: CredentialRow) -> Sequence[str]:
        left = write_left(row.life.expires, now)
        if not wide:
            return (row.kind, row.holder, left, write_renewal(row, now), row.health.word, row.note or "-")
        issued, expires, renewal = map(write_day, (row.life.issued, row.life.expires, row.next_rotation))
        return (row.kind, row.holder, row.subject, issued, expires, left, renewal, row.health.word, row.note or "-")

    short = ("CREDENTIAL", "HOLDER", "LEFT", "NEXT ROTATION", "HEALTH", "NOTE")
    long = ("CREDENTIAL", "HOLDER", "SUBJECT", "ISSUED", "EXPIRES", "LEFT", "NEXT ROTATION", "HEALTH", "NOTE")
    rows = [cells(row) for row in inventory.credentials]
    return render_table(long if wide else short, rows, width=width) if rows else ""


def _tell_unseen(inventory: Inventory) -> None:
    for what, why in inventory.unseen.items():
        click.echo(f"not shown: {what} ({why})", err=True)
