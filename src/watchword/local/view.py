"""The terminal view of a fleet on this machine: steps, clusters, credentials, events, and what to try."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from watchword.admin.terminal import Style, StyledLine, TerminalSize
from watchword.health.formatting import format_count, format_renewal, format_time_left
from watchword.health.inventory_rows import CredentialRow, Inventory
from watchword.health.recent_events import FleetEvent
from watchword.health.states import InventoryHealth
from watchword.local.startup import StepState, StepStatus

GAP = "  "
KIND_FROM = 70  # columns, from which on the kind of a credential is shown
SMALLEST_TABLE = 4  # an empty line, the headings, and a row, with another for the number of hidden ones
LOW = 20  # rows, below which one command has to do
UNICODE_MARKS = {StepState.DONE: "✓", StepState.FAILED: "✗", StepState.RUNNING: "•", StepState.WAITING: "·"}
ASCII_MARKS = {StepState.DONE: "+", StepState.FAILED: "x", StepState.RUNNING: ">", StepState.WAITING: "."}
STEP_STYLES = {
    StepState.DONE: Style.GOOD,
    StepState.FAILED: Style.BAD,
    StepState.RUNNING: Style.WARN,
    StepState.WAITING: Style.DIM,
}
Cell = tuple[str, Style]


class FleetView(Struct, frozen=True):
    """Everything that can be shown at one moment."""

    title: str
    steps: Sequence[StepStatus]
    inventory: Inventory | None
    recent_events: Sequence[FleetEvent]
    commands: Sequence[str]  # what to try; empty until there is something to try it on
    now: datetime
    hint: str = ""  # how to end it
    dashboard: str = ""  # its address, which works once
    unicode: bool = True
    driver: str = ""  # by which the clusters register


def summarise_fleet(view: FleetView) -> str:
    """Return what runs, counted: "hub, 2 clusters, 4 add-ons, 12 credentials, by csr"."""
    inventory = view.inventory
    if inventory is None:
        return "hub"
    counts = (
        (len(inventory.clusters), "cluster"),
        (len(inventory.addons), "add-on"),
        (sum(row.count for row in inventory.credentials), "credential"),
    )
    parts = ["hub", *(format_count(count, noun) for count, noun in counts if count)]
    return ", ".join([*parts, *([f"by {view.driver}"] if view.driver and inventory.clusters else [])])


def render_head(view: FleetView, size: TerminalSize) -> list[StyledLine]:
    return [[("watchword", Style.BOLD), (f" {view.title}", Style.PLAIN)], *_steps(view, size)]


def render_view(view: FleetView, size: TerminalSize) -> list[StyledLine]:
    """Return the lines that fit: when space is short, events go first, then rows that need no attention."""
    head, foot = render_head(view, size), render_foot(view, size)
    space = size.rows - 1 - len(head) - len(foot)
    inventory = view.inventory
    if inventory is None:
        return [*head, *foot]
    clusters = [
        [
            (row.name, Style.PLAIN),
            *((word, _yes(word)) for word in (row.accepted, row.joined, row.available)),
            (row.note, style_of(row.health)),
        ]
        for row in inventory.clusters
    ]
    with_kind = size.columns >= KIND_FROM
    headers = ("CREDENTIALS", *(("KIND",) if with_kind else ()), "LEFT", "RENEWAL", "HEALTH")
    credentials = _credential_cells(inventory.credentials, view, with_kind=with_kind)
    for_clusters, for_credentials, for_events = _divide_rows(space, len(clusters), len(credentials))
    body = [
        *_table(
            ("CLUSTERS", "ACCEPTED", "JOINED", "AVAILABLE", "NOTE"), clusters, TerminalSize(size.columns, for_clusters)
        ),
        *_table(headers, credentials, TerminalSize(size.columns, for_credentials)),
        *_event_rows(view.recent_events, for_events),
    ]
    return [*head, *body, *foot]


def _divide_rows(space: int, clusters: int, credentials: int) -> tuple[int, int, int]:
    """Return how many lines each part may take, its heading and the empty line before it included."""
    wanted_clusters, wanted_credentials = clusters + 2, credentials + 2
    if wanted_clusters + wanted_credentials <= space:
        return wanted_clusters, wanted_credentials, space - wanted_clusters - wanted_credentials
    half = max(space // 2, min(space, SMALLEST_TABLE), 0)
    for_clusters = min(wanted_clusters, max(half, space - wanted_credentials))
    return for_clusters, min(wanted_credentials, max(space - for_clusters, 0)), 0


def _steps(view: FleetView, size: TerminalSize) -> list[StyledLine]:
    marks = UNICODE_MARKS if view.unicode else ASCII_MARKS
    seconds = sum(step.seconds for step in view.steps)
    if all(step.state is StepState.DONE for step in view.steps):
        done = f" ready in {seconds:.1f} s: {summarise_fleet(view)}"
        return [[(marks[StepState.DONE], Style.GOOD), (done, Style.PLAIN)]]
    shown = view.steps
    if len(shown) > max(size.rows // 2, 1):  # a low terminal shows what is under way
        active = next((i for i, step in enumerate(shown) if step.state is not StepState.DONE), 0)
        shown = shown[active : active + max(size.rows // 2, 1)]
    width = max(len(step.title) for step in view.steps)
    return [
        [
            (marks[step.state], STEP_STYLES[step.state]),
            (f" {step.title.ljust(width)}", Style.DIM if step.state is StepState.WAITING else Style.PLAIN),
            (f"{GAP}{step.detail}" if step.detail else "", Style.BAD if step.state is StepState.FAILED else Style.DIM),
        ]
        for step in shown
    ]


def _credential_cells(rows: Sequence[CredentialRow], view: FleetView, *, with_kind: bool) -> list[Sequence[Cell]]:
    return [
        [
            (row.holder, Style.PLAIN),
            *([(row.kind, Style.PLAIN)] if with_kind else []),
            (format_time_left(row.validity.expires, view.now), Style.PLAIN),
            (format_renewal(row, view.now), Style.DIM),
            (row.health.label + (f": {row.note}" if row.note else ""), style_of(row.health)),
        ]
        for row in rows
    ]


def _table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], space: TerminalSize) -> list[StyledLine]:
    """Return an empty line, the headings and as many rows as there is space for; a narrow terminal cuts their ends."""
    enough = min(len(rows) + 2, SMALLEST_TABLE)
    if space.rows < enough or not rows:
        return []
    shown = rows if len(rows) <= space.rows - 2 else rows[: space.rows - 3]
    left = len(rows) - len(shown)
    names = [f"{headers[0]} ({len(rows)})" if len(rows) > 5 else headers[0], *headers[1:]]
    widths = [max([len(name), *(len(row[i][0]) for row in shown)]) for i, name in enumerate(names)]
    heading = GAP.join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()
    lines: list[StyledLine] = [[("", Style.PLAIN)], [(heading, Style.BOLD)]]
    for row in shown:
        *cells, (last, style) = row
        padded = [(text.ljust(width) + GAP, paint) for (text, paint), width in zip(cells, widths[:-1], strict=True)]
        lines.append([*padded, (last, style)])
    if left:
        lines.append([(f"and {left} more", Style.DIM)])
    return lines


def _event_rows(rows: Sequence[FleetEvent], space: int) -> list[StyledLine]:
    if space < 3 or not rows:
        return []
    lines: list[StyledLine] = [[("", Style.PLAIN)], [("EVENTS", Style.BOLD)]]
    for row in rows[-(space - 2) :]:
        style = Style.WARN if row.is_warning else Style.PLAIN
        lines.append([(f"{row.at[11:19]}{GAP}", Style.DIM), (f"{row.about}: {row.what}", style)])
    return lines


def render_foot(view: FleetView, size: TerminalSize) -> list[StyledLine]:
    if not view.commands:
        return []
    shown = view.commands[:1] if size.rows < LOW else view.commands
    lines: list[StyledLine] = [
        [("", Style.PLAIN)],
        [("TRY", Style.BOLD), (f" ({view.hint})" if view.hint else "", Style.DIM)],
    ]
    if view.dashboard:
        lines.append([("dashboard at ", Style.DIM), (view.dashboard, Style.PLAIN)])
    return lines + [[(part, Style.PLAIN)] for command in shown for part in wrap_command(command, size.columns)]


def wrap_command(command: str, columns: int) -> list[str]:
    """Return a command as lines that can be copied: longer ones go on after a backslash."""
    lines, current = [], ""
    for word in command.split(" "):
        if current and len(current) + 1 + len(word) + 2 > columns and len(command) > columns:
            lines.append(f"{current} \\")
            current = f"    {word}"
        else:
            current = f"{current} {word}" if current else word
    return [*lines, current]


def style_of(health: InventoryHealth) -> Style:
    if health is InventoryHealth.GOOD:
        return Style.GOOD
    return Style.BAD if health < InventoryHealth.PENDING else Style.WARN


def _yes(word: str) -> Style:
    return {"yes": Style.GOOD, "no": Style.WARN}.get(word, Style.DIM)
