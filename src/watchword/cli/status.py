"""`watchword status`: who holds which credential until when."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from msgspec.structs import replace

from watchword.admin.terminal import Screen, Style, can_redraw, terminal_size
from watchword.cli._exit_codes import ExitCode
from watchword.cli.common_options import format_document, output_option
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import flag
from watchword.cli.output import echo, echo_line, render_table, terminal_width
from watchword.health.audit_log import read_audit_logs
from watchword.health.examination import Examination
from watchword.health.facts import HubFacts
from watchword.health.finding import CheckResult, finding_document, urgent
from watchword.health.formatting import format_count, format_renewal, format_time_left, format_timestamp
from watchword.health.hub_observer import observe_hub
from watchword.health.hub_reader import read_hub_facts, require_fleet, require_hub
from watchword.health.hub_rules import decide_hub_findings
from watchword.health.inventory import build_inventory, inventory_document
from watchword.health.inventory_rows import CredentialRow, Inventory
from watchword.health.states import InventoryHealth
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run

WIDE = 150  # columns, from which on everything is shown
MAX_HEALTHY_ROWS = 20  # rows of a table that a terminal is shown, unless more of them need attention


class HasHealth(Protocol):
    """A row of any table."""

    @property
    def health(self) -> InventoryHealth: ...


Row = TypeVar("Row", bound=HasHealth)


@click.command("status")
@output_option("wide")
@click.option(
    "--audit-log",
    "logs",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Audit log of an API server, to show which credentials are in use; repeatable.",
)
@flag("--watch", "-w", help="Show every change until interrupted.")
@flag("--check", help="For cron: print only what needs attention; exit code 6 if anything does.")
@connection_options
def command(
    connection: ClusterConnection,
    output: str,
    logs: tuple[Path, ...],
    watch: bool,  # noqa: FBT001 - a flag
    check: bool,  # noqa: FBT001 - a flag
) -> int:
    """List clusters, add-ons and credentials with expiry and health.

    Clusters, add-ons and credentials of any hub, what needs attention first; pull secrets in one row for each
    state. What this user may not read is named, and the rest is shown. --check prints the findings of
    `doctor`, here or on a cluster, and nothing when all is well.
    """
    if watch and (check or logs):
        raise click.UsageError("--check and --audit-log look once and end, --watch stays: give one of them")
    if watch:
        with suppress(KeyboardInterrupt):
            run(_watch(connection, output))
        return ExitCode.DONE
    if check:
        return _check(run(_examine(connection, logs)), output)
    now = datetime.now(UTC)
    facts = run(_read(connection, logs))
    inventory, results = build_inventory(facts, now=now), decide_hub_findings(facts, now=now)
    _show(inventory, results, now, output)
    shown = inventory.clusters or inventory.addons or inventory.credentials
    return ExitCode.REFUSED if "clusters" in inventory.unseen and not shown else ExitCode.DONE


async def _read(connection: ClusterConnection, logs: Sequence[Path]) -> HubFacts:
    async with connection.client() as client:
        return require_fleet(await read_hub_facts(client, usage=read_audit_logs(logs) if logs else None))


async def _examine(connection: ClusterConnection, logs: Sequence[Path]) -> list[CheckResult]:
    async with connection.client() as client:
        usage = read_audit_logs(logs) if logs else None
        return await Examination(client, SystemClock(), usage).run()


def _check(results: Sequence[CheckResult], output: str) -> int:
    found = urgent(results)
    if output in ("json", "yaml"):
        echo(format_document([finding_document(*row) for row in found], output), nl=False)
    else:
        for line in describe_findings(results):
            echo_line(line)
    return ExitCode.ATTENTION if found else ExitCode.DONE


def describe_findings(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield one line for each thing that needs attention, and one for its next command."""
    for _, finding in urgent(results):
        yield f"{finding.severity.label}: {finding.line}"
        if finding.command:
            yield f"  next: {finding.command}"


def _show(inventory: Inventory, results: Sequence[CheckResult], now: datetime, output: str) -> None:
    if output in ("json", "yaml"):
        findings = [finding_document(*row) for row in urgent(results)]
        echo(format_document({**inventory_document(inventory, now), "findings": findings}, output), nl=False)
        return
    width = terminal_width()
    own = [CheckResult(each.check, [row for row in each.findings if not row.about]) for each in results]
    for line in describe_findings(own):  # what has a row says it there
        echo_line(line, err=width is None)
    echo(render_inventory(inventory, now, output, width), nl=False)
    if width is not None and inventory.clusters:
        echo(f"\n{summarise(inventory)}")


async def _watch(connection: ClusterConnection, output: str) -> None:
    async with connection.client() as client:
        await require_hub(client)
        facts = await read_hub_facts(client)
        readable = facts.pull_secrets is not None
        async with observe_hub(client, dict(facts.unseen), pull_secrets=readable, absent=facts.absent) as observer:
            await _follow(observer, output)


async def _follow(observer: Any, output: str) -> None:
    redraws = can_redraw(sys.stdout, os.environ) and output in ("table", "wide")
    screen = Screen(sys.stdout, color=False, size=lambda: terminal_size(sys.stdout))
    last = ""
    try:
        while True:
            seen, now = observer.changes, datetime.now(UTC)
            inventory = build_inventory(observer.facts(), now=now)
            most = max(MAX_HEALTHY_ROWS // 5, terminal_size(sys.stdout).rows // 3 - 4) if redraws else MAX_HEALTHY_ROWS
            text = render_inventory(inventory, now, output, terminal_width(), most=most)
            if redraws:
                lines = [summarise(inventory), "", *text.splitlines()]
                screen.draw([[(line, Style.PLAIN)] for line in lines])
            elif text != last:
                echo(text if not last else f"\n{text}", nl=False)
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


def render_inventory(
    inventory: Inventory, now: datetime, form: str, width: int | None, *, most: int = MAX_HEALTHY_ROWS
) -> str:
    """Return everything as tables, or as a document; a terminal is spared most of what is well."""
    if form in ("json", "yaml"):
        return format_document(inventory_document(inventory, now), form)
    wide = form == "wide" or width is None or width >= WIDE
    shown = inventory if form == "wide" or width is None else choose_visible_rows(inventory, most)
    parts = [
        _clusters(shown, width) + _remainder(inventory.clusters, shown.clusters),
        _addons(shown, width) + _remainder(inventory.addons, shown.addons),
        _credentials(shown, now, width, wide=wide) + _remainder(inventory.credentials, shown.credentials),
    ]
    return "\n".join(part for part in parts if part) or _explain_empty(inventory)


def choose_visible_rows(inventory: Inventory, most: int) -> Inventory:
    """Return every row that needs attention or soon will, and so many of the others that a table has that many."""

    def piece(rows: Sequence[Row]) -> Sequence[Row]:
        return rows[: max(most, sum(row.health.is_not_good for row in rows))]

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
    tables = (
        ("cluster", [(row.health, 1) for row in inventory.clusters]),
        ("add-on", [(row.health, 1) for row in inventory.addons]),
        ("credential", [(row.health, row.count) for row in inventory.credentials]),
    )
    there = ", ".join(format_count(sum(count for _, count in rows), noun) for noun, rows in tables if rows)
    troubles = [
        format_count(total, noun)
        for noun, rows in tables
        if (total := sum(count for health, count in rows if health.needs_attention))
    ]
    return f"{there}: {' and '.join(troubles)} to look at" if troubles else f"{there}: all well"


def _explain_empty(inventory: Inventory) -> str:
    """Return why nothing is shown: there is nothing, or it may not be seen."""
    if "clusters" in inventory.unseen:
        return f"clusters cannot be listed: {inventory.unseen['clusters']}\n"
    return "there are no clusters: `watchword token create` invites one\n"


def _clusters(inventory: Inventory, width: int | None) -> str:
    rows = [(r.name, r.accepted, r.joined, r.available, r.health.label, r.note or "-") for r in inventory.clusters]
    return (
        render_table(("CLUSTER", "ACCEPTED", "JOINED", "AVAILABLE", "HEALTH", "NOTE"), rows, width=width)
        if rows
        else ""
    )


def _addons(inventory: Inventory, width: int | None) -> str:
    rows = [
        (r.name, r.cluster, r.driver or "-", r.credential, r.available, r.health.label, r.note or "-")
        for r in inventory.addons
    ]
    headers = ("ADD-ON", "CLUSTER", "DRIVER", "CREDENTIAL", "AVAILABLE", "HEALTH", "NOTE")
    return render_table(headers, rows, width=width) if rows else ""


def _credentials(inventory: Inventory, now: datetime, width: int | None, *, wide: bool) -> str:
    def cells(row: CredentialRow) -> Sequence[str]:
        left = format_time_left(row.validity.expires, now)
        if not wide:
            return (row.kind, row.holder, left, format_renewal(row, now), row.health.label, row.note or "-")
        issued, expires, renewal = map(format_timestamp, (row.validity.issued, row.validity.expires, row.next_rotation))
        return (row.kind, row.holder, row.subject, issued, expires, left, renewal, row.health.label, row.note or "-")

    short = ("CREDENTIAL", "HOLDER", "LEFT", "NEXT ROTATION", "HEALTH", "NOTE")
    long = ("CREDENTIAL", "HOLDER", "SUBJECT", "ISSUED", "EXPIRES", "LEFT", "NEXT ROTATION", "HEALTH", "NOTE")
    rows = [cells(row) for row in inventory.credentials]
    return render_table(long if wide else short, rows, width=width) if rows else ""
