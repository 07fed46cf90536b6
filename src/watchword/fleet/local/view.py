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
    foot = _commands(scene, size.columns)
    room = size.rows - 1 - len(head) - len(foot)
    inventory = scene.inventory
    if inventory is None:
        return [*head, *foot]
    clusters, credentials = _cluster_cells(inventory.clusters), _credential_cells(inventory.credentials, scene)
    for_clusters, for_credentials, for_events = _share(room, len(clusters), len(credentials))
    body = [
        *_table("CLUSTERS", ("NAME", "ACCEPTED", "JOINED", "AVAILABLE", "NOTE"), clusters, for_clusters),
        *_table("CREDENTIALS", ("HOLDER", "KIND", "LEFT", "RENEWAL", "HEALTH"), credentials, for_credentials),
        *_happenings(scene.happenings, for_events),
    ]
    return [*head, *body, *foot]


def _share(room: int, clusters: int, credentials: int) -> tuple[int, int, int]:
    """Return how many lines each part may take, its heading and the empty line before it included."""
    wanted_clusters, wanted_credentials = clusters + 2, credentials + 2
    if wanted_clusters + wanted_credentials <= room:
        return wanted_clusters, wanted_credentials, room - wanted_clusters - wanted_credentials
    half = max(room // 2, 0)
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


def _credential_cells(rows: Sequence[CredentialRow], scene: Scene) -> list[Sequence[Cell]]:
    return [
        [
            (row.holder, Style.PLAIN),
            (row.kind, Style.PLAIN),
            (write_left(row.life.expires, scene.now), Style.PLAIN),
            (write_renewal(row, scene.now), Style.DIM),
            (row.health.word + (f": {row.note}" if row.note else ""), style_of(row.health)),
        ]
        for row in rows
    ]


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]], room: int) -> list[Line]:
    """Return an empty line, the headings and as many rows as there is room for."""
    if room < 3 or not rows:
        return []
    shown = rows if len(rows) <= room - 2 else rows[: room - 3]
    left = len(rows) - len(shown)
    names = [f"{title} ({len(rows)})" if len(rows) > 5 else title, *headers[1:]]
    widths = [max(len(name), *(len(row[i][0]) for row in shown)) for i, name in enumerate(names)]
    heading = GAP.join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()
    lines: list[Line] = [[("", Style.PLAIN)], [(heading, Style.BOLD)]]
    lines += [
        [(text.ljust(width) + GAP, style) for (text, style), width in zip(row, widths, strict=True)] for row in shown
    ]
    if left:
        lines.append([(f"and {left} more", Style.DIM)])
    return lines


def _happenings(rows: Sequence[Happening], room: int) -> list[Line]:
    if room < 3 or not rows:
        return []
    lines: list[Line] = [[("", Style.PLAIN)], [("EVENTS", Style.BOLD)]]
    for row in rows[-(room - 2) :]:
        style = Style.WARN if row.is_warning else Style.PLAIN
        lines.append([(f"{row.at[11:19]}{GAP}", Style.DIM), (f"{row.about}: {row.what}", style)])
    return lines


def _commands(scene: Scene, columns: int) -> list[Line]:
    if not scene.commands:
        return []
    lines: list[Line] = [
        [("", Style.PLAIN)],
        [("TRY", Style.BOLD), (f" ({scene.hint})" if scene.hint else "", Style.DIM)],
    ]
    return lines + [[(part, Style.PLAIN)] for command in scene.commands for part in wrap_command(command, columns)]


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
