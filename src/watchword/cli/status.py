"""`watchword status`: who holds which credential until when."""

import asyncio
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from watchword.admin.terminal import Screen, Style, can_redraw, terminal_size
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.lists import ListRequest, list_options, select_names, sort_key
from watchword.cli.options import file_option, flag
from watchword.cli.output import echo, echo_line, echo_table, format_document, has_color, render_table, terminal_width
from watchword.health.audit_log import read_audit_logs
from watchword.health.examination import Examination
from watchword.health.finding import CheckResult, finding_document, urgent
from watchword.health.formatting import format_count, format_renewal, format_time_left, format_timestamp
from watchword.health.hub_observer import observe_hub
from watchword.health.hub_reader import read_hub_facts, require_fleet, require_hub
from watchword.health.hub_rules import decide_hub_findings
from watchword.health.inventory import build_inventory, inventory_document, keep_clusters
from watchword.health.inventory_rows import AddonRow, ClusterRow, CredentialRow, Inventory
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock

TABLES = ("table", "wide")
CLUSTER_COLUMNS = ("CLUSTER", "ACCEPTED", "JOINED", "AVAILABLE", "HEALTH", "NOTE")
ADDON_COLUMNS = ("ADD-ON", "CLUSTER", "DRIVER", "CREDENTIAL", "AVAILABLE", "HEALTH", "NOTE")
SHORT_COLUMNS = ("CREDENTIAL", "HOLDER", "LEFT", "NEXT ROTATION", "HEALTH", "NOTE")
CREDENTIAL_COLUMNS = (
    "CREDENTIAL", "HOLDER", "SUBJECT", "ISSUED", "EXPIRES", "LEFT", "NEXT ROTATION", "HEALTH", "NOTE",
)  # fmt: skip
WIDE = 150  # columns, from which on everything is shown
MAX_HEALTHY_ROWS = 20  # rows of a table that a terminal is shown, unless more of them need attention


@click.command("status")
@list_options()
@file_option(
    "--audit-log",
    "logs",
    multiple=True,
    help="Audit log of an API server, to show which credentials are in use; repeatable.",
)
@flag("--check", help="For cron: print only what needs attention; exit code 6 if anything does.")
@connection_options
def command(connection: ClusterConnection, request: ListRequest, logs: tuple[Path, ...], *, check: bool) -> int:
    """List clusters, add-ons and credentials with expiry and health.

    Clusters, add-ons and credentials of any hub, what needs attention first; pull secrets in one row for each
    state. What this user may not read is named, and the rest is shown. --selector chooses clusters by their labels,
    with their add-ons and credentials; --sort-by sorts every table that has the column. --check prints the findings
    of `doctor`, here or on a cluster, and nothing when all is well; a cluster that neither is a hub nor has joined one
    needs attention too.
    """
    known = dict.fromkeys((*CLUSTER_COLUMNS, *ADDON_COLUMNS, *CREDENTIAL_COLUMNS))
    if request.sort_by and _column(request.sort_by) not in known:
        columns = ", ".join(column.lower().replace(" ", "-") for column in known)
        raise click.BadParameter(f"{request.sort_by!r} is no column: choose from {columns}", param_hint="--sort-by")
    if request.watch and (check or logs):
        raise click.UsageError("--check and --audit-log look once and end, --watch stays: give one of them")
    if request.watch:
        if request.output == "name":
            raise click.UsageError("--watch shows tables and documents: leave -o name out, or give another form")
        with suppress(KeyboardInterrupt):
            connection.run(lambda client: _watch(client, request))
        return ExitCode.DONE
    if check:
        return _check(connection.run(lambda client: _examine(client, logs, request.selector)), request.output)
    now = datetime.now(UTC)
    usage = read_audit_logs(logs) if logs else None
    facts = require_fleet(connection.run(lambda client: read_hub_facts(client, usage=usage)))
    names = select_names(facts.clusters, request.selector)
    inventory = keep_clusters(build_inventory(facts, now=now), names)
    _show(inventory, _about(decide_hub_findings(facts, now=now), names), now, request)
    shown = inventory.clusters or inventory.addons or inventory.credentials
    return ExitCode.REFUSED if "clusters" in inventory.unseen and not shown else ExitCode.DONE


async def _examine(client: Client, logs: Sequence[Path], selector: str) -> Sequence[CheckResult]:
    usage = read_audit_logs(logs) if logs else None
    clusters = (await client.list(MANAGED_CLUSTERS)).items if selector else ()
    return _about(await Examination(client, SystemClock(), usage).run(), select_names(clusters, selector))


def _about(results: Sequence[CheckResult], names: Collection[str] | None) -> Sequence[CheckResult]:
    """Return what was found about these clusters and about no cluster; everything for None."""
    if names is None:
        return results
    return [
        CheckResult(each.check, [row for row in each.findings if not row.cluster or row.cluster in names])
        for each in results
    ]


def _check(results: Sequence[CheckResult], output: str) -> int:
    found = urgent(results)
    if output not in (*TABLES, "name"):
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


def _show(inventory: Inventory, results: Sequence[CheckResult], now: datetime, request: ListRequest) -> None:
    if request.output == "name":
        for row in inventory.clusters:
            echo_line(f"{MANAGED_CLUSTERS.kind.lower()}.{MANAGED_CLUSTERS.group}/{row.name}")
        return
    if request.output not in TABLES:
        findings = [finding_document(*row) for row in urgent(results)]
        echo(format_document({**inventory_document(inventory, now), "findings": findings}, request.output), nl=False)
        return
    width = terminal_width()
    own = [CheckResult(each.check, [row for row in each.findings if not row.about]) for each in results]
    for line in describe_findings(own):  # what has a row says it there
        echo_line(line, err=width is None)
    echo_table(render_inventory(inventory, now, request, width, color=has_color()))
    if width is not None and inventory.clusters:
        echo(f"\n{summarise(inventory)}")


async def _watch(client: Client, request: ListRequest) -> None:
    await require_hub(client)
    facts = await read_hub_facts(client)
    readable = facts.pull_secrets is not None
    async with observe_hub(client, dict(facts.unseen), pull_secrets=readable, absent=facts.absent) as observer:
        await _follow(observer, request)


async def _follow(observer: Any, request: ListRequest) -> None:
    redraws = can_redraw(sys.stdout, os.environ) and request.output in TABLES
    screen = Screen(sys.stdout, color=False, size=lambda: terminal_size(sys.stdout))
    last = ""
    try:
        while True:
            seen, now = observer.changes, datetime.now(UTC)
            facts = observer.facts()
            names = select_names(facts.clusters, request.selector)
            inventory = keep_clusters(build_inventory(facts, now=now), names)
            most = max(MAX_HEALTHY_ROWS // 5, terminal_size(sys.stdout).rows // 3 - 4) if redraws else MAX_HEALTHY_ROWS
            text = render_inventory(inventory, now, request, terminal_width(), most=most)
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
    inventory: Inventory,
    now: datetime,
    request: ListRequest,
    width: int | None,
    *,
    most: int = MAX_HEALTHY_ROWS,
    color: bool = False,
) -> str:
    """Return everything as tables, or as a document; a terminal gets only some of the healthy rows."""
    form = request.output
    if form not in TABLES:
        return format_document(inventory_document(inventory, now), form)
    hidden = {*CREDENTIAL_COLUMNS} - {*SHORT_COLUMNS}
    wide = form == "wide" or width is None or width >= WIDE or _column(request.sort_by) in hidden
    shown = inventory if form == "wide" or width is None else choose_visible_rows(inventory, most)
    tables = [
        (CLUSTER_COLUMNS, [_cluster_cells(row) for row in shown.clusters], inventory.clusters),
        (ADDON_COLUMNS, [_addon_cells(row) for row in shown.addons], inventory.addons),
        (
            CREDENTIAL_COLUMNS if wide else SHORT_COLUMNS,
            [_credential_cells(row, now, wide=wide) for row in shown.credentials],
            inventory.credentials,
        ),
    ]
    parts = [
        render_table(columns, _ordered(columns, rows, request.sort_by), width=width, color=color)
        + (f"and {len(every) - len(rows)} more, all well: -o wide shows them\n" if len(every) > len(rows) else "")
        for columns, rows, every in tables
        if rows
    ]
    return "\n".join(part for part in parts if part) or _explain_empty(inventory, request.selector)


def choose_visible_rows(inventory: Inventory, most: int) -> Inventory:
    """Return every row that needs attention or soon will, and so many of the others that a table has that many."""

    def piece(rows: Sequence[Any]) -> Sequence[Any]:
        return rows[: max(most, sum(row.health.is_not_good for row in rows))]

    clusters, addons = piece(inventory.clusters), piece(inventory.addons)
    return replace(inventory, clusters=clusters, addons=addons, credentials=piece(inventory.credentials))


def _column(sort_by: str) -> str:
    name = sort_by.upper().replace("-", " ")
    return "ADD-ON" if name == "ADD ON" else name


def _ordered(columns: Sequence[str], rows: Sequence[Sequence[str]], sort_by: str) -> Sequence[Sequence[str]]:
    if _column(sort_by) not in columns:
        return rows
    index = columns.index(_column(sort_by))
    return sorted(rows, key=lambda row: sort_key(row[index]))


def summarise(inventory: Inventory) -> str:
    tables = (
        ("cluster", [(row.health, 1) for row in inventory.clusters]),
        ("add-on", [(row.health, 1) for row in inventory.addons]),
        ("credential", [(row.health, row.count) for row in inventory.credentials]),
    )
    there = ", ".join(format_count(sum(count for _, count in rows), noun) for noun, rows in tables if rows)
    problems = [
        format_count(total, noun)
        for noun, rows in tables
        if (total := sum(count for health, count in rows if health.needs_attention))
    ]
    return f"{there}: {' and '.join(problems)} to look at" if problems else f"{there}: all well"


def _explain_empty(inventory: Inventory, selector: str) -> str:
    """Return why nothing is shown: there is nothing, or it may not be seen."""
    if "clusters" in inventory.unseen:
        return f"clusters cannot be listed: {inventory.unseen['clusters']}\n"
    if selector:
        return f"no cluster has labels that match {selector}: `watchword clusters` lists all\n"
    return "there are no clusters: `watchword token create` invites one\n"


def _cluster_cells(row: ClusterRow) -> Sequence[str]:
    return row.name, row.accepted, row.joined, row.available, row.health.label, row.note or "-"


def _addon_cells(row: AddonRow) -> Sequence[str]:
    note = row.note or "-"
    return row.name, row.cluster, row.driver or "-", row.credential, row.available, row.health.label, note


def _credential_cells(row: CredentialRow, now: datetime, *, wide: bool) -> Sequence[str]:
    left = format_time_left(row.validity.expires, now)
    if not wide:
        return row.kind, row.holder, left, format_renewal(row, now), row.health.label, row.note or "-"
    issued, expires, renewal = map(format_timestamp, (row.validity.issued, row.validity.expires, row.next_rotation))
    return row.kind, row.holder, row.subject, issued, expires, left, renewal, row.health.label, row.note or "-"
