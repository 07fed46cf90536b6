"""What a person sees of a fleet on this machine: steps, clusters, credentials, events, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from watchword.fleet.happenings import Happening
from watchword.fleet.health import Health
from watchword.fleet.inventory import ClusterRow, CredentialRow, Inventory
from watchword.fleet.local.story import Line as StepLine
from watchword.fleet.local.story import State
from watchword.fleet.screen import Line, Size, Style
from watchword.fleet.words import write_left, write_renewal

GAP = "  "
KIND_FROM = 70  # columns, from which on the kind of a credential is shown
SMALLEST_TABLE = 4  # an empty line, the headings, and a row, with another to say how many more there are
LOW = 20  # rows, below which one command has to do
NARROWEST = 12  # columns that the first one keeps
UNICODE_MARKS = {State.DONE: "✓", State.FAILED: "✗", State.RUNNING: "•", State.WAITING: "·"}
ASCII_MARKS = {State.DONE: "+", State.FAILED: "x", State.RUNNING: ">", State.WAITING: "."}
STEP_STYLES = {
    State.DONE: Style.GOOD,
    State.FAILED: Style.BAD,
    State.RUNNING: Style.WARN,
    State.WAITING: Style.DIM,
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that can be shown at one moment."""

    title: str
    steps: Sequence[StepLine]
    inventory: Inventory | None
    happenings: Sequence[Happening]
    commands: Sequence[str]  # what to try; empty until there is something to try it on
    now: datetime
    hint: str = ""  # how to end it
    unicode: bool = True


def compose(scene: Scene, size: Size) -> list[Line]:
    """Return the lines that fit: when space is short, events go first, then rows that need no attention."""
    head = [_title(scene), *_steps(scene, size)]
    foot = _commands(scene, size)
    room = size.rows - 1 - len(head) - len(foot)
    inventory = scene.inventory
    if inventory is None:
        return [*head, *foot]
    clusters = _cluster_cells(inventory.clusters)
    credentials = _credential_cells(inventory.credentials, scene, with_kind=size.columns >= KIND_FROM)
    for_clusters, for_credentials, for_events = _share(room, len(clusters), len(credentials))
    body = [
        *_table(("CLUSTERS", "ACCEPTED", "JOINED", "AVAILABLE", "NOTE"), clusters, Size(size.columns, for_clusters)),
        *_table(_credential_headers(size), credentials, Size(size.columns, for_credentials)),
        *_happenings(scene.happenings, for_events),
    ]
    return [*head, *body, *foot]


def _share(room: int, clusters: int, credentials: int) -> tuple[int, int, int]:
    """Return how many lines each part may take, its heading and the empty line before it included."""
    wanted_clusters, wanted_credentials = clusters + 2, credentials + 2
    if wanted_clusters + wanted_credentials <= room:
        return wanted_clusters, wanted_credentials, room - wanted_clusters - wanted_credentials
    half = max(room // 2, min(room, SMALLEST_TABLE), 0)
    for_clusters = min(wanted_clusters, max(half, room - wanted_credentials))
    return for_clusters, min(wanted_credentials, max(room - for_clusters, 0)), 0


def _title(scene: Scene) -> Line:
    return [("watchword", Style.BOLD), (f" {scene.title}", Style.PLAIN)]


def _steps(scene: Scene, size: Size) -> list[Line]:
    marks = UNICODE_MARKS if scene.unicode else ASCII_MARKS
    seconds = sum(step.seconds for step in scene.steps)
    if all(step.state is State.DONE for step in scene.steps):
        done = f" ready in {seconds:.1f} s: {scene.steps[-1].detail}"
        return [[(marks[State.DONE], Style.GOOD), (done, Style.PLAIN)]]
    shown = scene.steps
    if len(shown) > max(size.rows // 2, 1):  # a low terminal shows what is under way
        active = next((i for i, step in enumerate(shown) if step.state is not State.DONE), 0)
        shown = shown[active : active + max(size.rows // 2, 1)]
    width = max(len(step.title) for step in scene.steps)
    return [
        [
            (marks[step.state], STEP_STYLES[step.state]),
            (f" {step.title.ljust(width)}", Style.DIM if step.state is State.WAITING else Style.PLAIN),
            (f"{GAP}{step.detail}" if step.detail else "", Style.BAD if step.state is State.FAILED else Style.DIM),
        ]
        for step in shown
    ]


Cell = tuple[str, Style]


def _cluster_cells(rows: Sequence[ClusterRow]) -> list[Sequence[Cell]]:
    return [
        [
            (row.name, Style.PLAIN),
            *((word, _yes(word)) for word in (row.accepted, row.joined, row.available)),
            (row.note, style_of(row.health)),
        ]
        for row in rows
    ]


def _credential_headers(size: Size) -> Sequence[str]:
    return ("CREDENTIALS", *(("KIND",) if size.columns >= KIND_FROM else ()), "LEFT", "RENEWAL", "HEALTH")


def _credential_cells(rows: Sequence[CredentialRow], scene: Scene, *, with_kind: bool) -> list[Sequence[Cell]]:
    return [
        [
            (row.holder, Style.PLAIN),
            *([(row.kind, Style.PLAIN)] if with_kind else []),
            (write_left(row.life.expires, scene.now), Style.PLAIN),
            (write_renewal(row, scene.now), Style.DIM),
            (row.health.word + (f": {row.note}" if row.note else ""), style_of(row.health)),
        ]
        for row in rows
    ]


def _table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], room: Size) -> list[Line]:
    """Return an empty line, the headings and as many rows as there is room for; the first column gives way."""
    enough = min(len(rows) + 2, SMALLEST_TABLE)
    if room.rows < enough or not rows:
        return []
    shown = rows if len(rows) <= room.rows - 2 else rows[: room.rows - 3]
    left = len(rows) - len(shown)
    names = [f"{headers[0]} ({len(rows)})" if len(rows) > 5 else headers[0], *headers[1:]]
    widths = [max([len(name), *(len(row[i][0]) for row in shown)]) for i, name in enumerate(names)]
    beyond = sum(widths[:-1]) + len(GAP) * (len(widths) - 1) + len(names[-1]) - room.columns
    widths[0] = max(widths[0] - max(beyond, 0), min(NARROWEST, widths[0]))
    heading = GAP.join(_cell(name, width) for name, width in zip(names, widths, strict=True)).rstrip()
    lines: list[Line] = [[("", Style.PLAIN)], [(heading, Style.BOLD)]]
    for row in shown:
        *cells, (last, style) = row
        padded = [(_cell(text, width) + GAP, paint) for (text, paint), width in zip(cells, widths[:-1], strict=True)]
        lines.append([*padded, (last, style)])
    if left:
        lines.append([(f"and {left} more", Style.DIM)])
    return lines


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 2]}.."


def _happenings(rows: Sequence[Happening], room: int) -> list[Line]:
    if room < 3 or not rows:
        return []
    lines: list[Line] = [[("", Style.PLAIN)], [("EVENTS", Style.BOLD)]]
    for row in rows[-(room - 2) :]:
        style = Style.WARN if row.is_warning else Style.PLAIN
        lines.append([(f"{row.at[11:19]}{GAP}", Style.DIM), (f"{row.about}: {row.what}", style)])
    return lines


def _commands(scene: Scene, size: Size) -> list[Line]:
    if not scene.commands:
        return []
    shown = scene.commands[:1] if size.rows < LOW else scene.commands
    lines: list[Line] = [
        [("", Style.PLAIN)],
        [("TRY", Style.BOLD), (f" ({scene.hint})" if scene.hint else "", Style.DIM)],
    ]
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


def style_of(health: Health) -> Style:
    """Return how a state of health is shown."""
    if health is Health.GOOD:
        return Style.GOOD
    return Style.BAD if health < Health.PENDING else Style.WARN


def _yes(word: str) -> Style:
    return {"yes": Style.GOOD, "no": Style.WARN}.get(word, Style.DIM)
