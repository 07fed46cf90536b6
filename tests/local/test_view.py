"""The view fits the terminal, whatever its size."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.admin.terminal import (
    Screen,
    Style,
    TerminalSize,
    can_redraw,
    plain_text,
    render_line,
    supports_color,
    truncate,
)
from watchword.api.credential_report import CredentialValidity
from watchword.health.formatting import format_age, format_time_left
from watchword.health.inventory_rows import ClusterRow, CredentialRow, Inventory
from watchword.health.recent_events import FleetEvent, collect_fleet_events
from watchword.health.states import InventoryHealth
from watchword.local.startup import StepState, StepStatus
from watchword.local.view import FleetView, render_view, wrap_command

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def a_view(clusters: int = 2, *, ready: bool = True, recent_events: int = 5) -> FleetView:
    state = StepState.DONE if ready else StepState.RUNNING
    life = CredentialValidity(NOW, NOW + timedelta(days=365), NOW + timedelta(days=270))
    names = [f"cluster{number}" for number in range(1, clusters + 1)]
    return FleetView(
        title="up: a hub and its clusters",
        steps=[StepStatus(f"step{n}", f"Step number {n}", state, "well done", 0.5) for n in range(8)],
        inventory=Inventory(
            [ClusterRow(name, "yes", "yes", "yes", InventoryHealth.GOOD) for name in names],
            [],
            [
                CredentialRow(
                    "cluster certificate",
                    name,
                    f"agent of {name}",
                    "somebody",
                    life,
                    InventoryHealth.GOOD,
                    renewed=True,
                )
                for name in names
            ],
            {},
        ),
        recent_events=[FleetEvent(f"2026-06-01T00:00:{n:02}Z", "cluster1", f"event {n}") for n in range(recent_events)],
        commands=["kubectl --kubeconfig ~/.local/state/watchword/kubeconfig get managedclusters"] if ready else [],
        now=NOW,
        hint="Ctrl-C stops it",
        driver="csr",
    )


@given(
    clusters=st.integers(0, 60),
    columns=st.integers(20, 200),
    rows=st.integers(5, 60),
    recent_events=st.integers(0, 30),
    ready=st.booleans(),
)
@settings(max_examples=300)
def test_a_picture_never_exceeds_the_terminal(
    *, clusters: int, columns: int, rows: int, recent_events: int, ready: bool
) -> None:
    stream = io.StringIO()
    size = TerminalSize(columns, rows)

    Screen(stream, color=False, size=lambda: size).draw(
        render_view(a_view(clusters, ready=ready, recent_events=recent_events), size)
    )

    shown = stream.getvalue().split("\r\n")[:-1]
    assert len(shown) <= rows - 1
    assert all(len(line.rpartition("\x1b[K")[2]) <= columns for line in shown)


def test_an_ordinary_terminal_shows_everything_of_two_clusters() -> None:
    text = "\n".join(plain_text(line) for line in render_view(a_view(), TerminalSize(80, 24)))

    for part in (
        "ready in 4.0 s: hub, 2 clusters, 2 credentials, by csr",
        "CLUSTERS",
        "cluster2",
        "CREDENTIALS",
        "agent of cluster2",
        "364d",
        "in 270d",
    ):
        assert part.replace("364d", "365d") in text
    assert "event 4" in text
    assert "get managedclusters" in text


def test_a_narrow_terminal_still_shows_what_matters_of_a_credential() -> None:
    lines = [plain_text(line) for line in render_view(a_view(), TerminalSize(40, 24))]

    assert any(line.startswith("agent of") and "in 270d" in line[:40] and "Go" in line[:40] for line in lines)


def test_what_does_not_fit_is_counted() -> None:
    text = "\n".join(plain_text(line) for line in render_view(a_view(200), TerminalSize(80, 24)))

    assert "CLUSTERS (200)" in text
    assert "more" in text


def test_steps_stay_until_all_are_taken() -> None:
    text = "\n".join(plain_text(line) for line in render_view(a_view(ready=False), TerminalSize(80, 24)))

    assert text.count("Step number") == 8


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param(80, ["watchword status --kubeconfig /a/b"], id="fits"),
        pytest.param(34, ["watchword status --kubeconfig /a/b"], id="fits exactly"),
        pytest.param(33, ["watchword status --kubeconfig \\", "    /a/b"], id="one too long"),
        pytest.param(12, ["watchword \\", "    status \\", "    --kubeconfig \\", "    /a/b"], id="very narrow"),
    ],
)
def test_wrap_command(columns: int, expected: list[str]) -> None:
    assert wrap_command("watchword status --kubeconfig /a/b", columns) == expected


def test_a_picture_is_drawn_over_the_last_one() -> None:
    stream = io.StringIO()
    screen = Screen(stream, color=False, size=lambda: TerminalSize(80, 24))

    screen.draw([[("one", Style.PLAIN)], [("two", Style.PLAIN)]])
    screen.draw([[("three", Style.PLAIN)]])
    screen.close()

    assert "\x1b[2A\r\x1b[Kthree\r\n\x1b[J" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[?7h\x1b[?25h")


def test_unchanged_picture_is_not_sent() -> None:
    stream = io.StringIO()
    screen = Screen(stream, color=False, size=lambda: TerminalSize(80, 24))

    screen.draw([[("one", Style.PLAIN)]])
    sent = stream.getvalue()
    screen.draw([[("one", Style.PLAIN)]])

    assert stream.getvalue() == sent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "color", "redraws"),
    [
        pytest.param(Terminal(), {"TERM": "xterm"}, True, True, id="terminal"),
        pytest.param(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False, True, id="colors are not wanted"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, False, id="dumb terminal"),
        pytest.param(io.StringIO(), {"TERM": "xterm"}, False, False, id="a file"),
    ],
)
def test_what_a_stream_can_show(
    stream: io.StringIO, environment: dict[str, str], *, color: bool, redraws: bool
) -> None:
    assert (supports_color(stream, environment), can_redraw(stream, environment)) == (color, redraws)


def test_lines_are_cut_with_a_mark_and_painted_only_when_asked() -> None:
    line = [("watch", Style.BOLD), ("word", Style.GOOD)]

    assert plain_text(truncate(line, 6)) == "watch…"
    assert truncate(line, 9) == line
    assert render_line(line, color=False) == "watchword"
    assert render_line(line, color=True) == "\x1b[1mwatch\x1b[0m\x1b[32mword\x1b[0m"


def test_what_a_cluster_says_moves_no_cursor() -> None:
    stream = io.StringIO()
    screen = Screen(stream, color=False, size=lambda: TerminalSize(80, 24))

    screen.draw([[("edge\x1b[2J\r\nfalse \u202eline", Style.PLAIN)]])

    assert "edge\\u001b[2J\\r\\nfalse \\u202eline\r\n" in stream.getvalue()


def test_events_are_printed_once_in_order() -> None:
    row = {"type": "Joined", "status": "True", "message": "joined", "lastTransitionTime": "2026-06-01T00:00:02Z"}
    cluster = {"metadata": {"name": "edge"}, "status": {"conditions": [row]}}
    event = {"regarding": {"name": "edge"}, "note": "accepted", "eventTime": "2026-06-01T00:00:01Z", "type": "Warning"}

    rows = collect_fleet_events([cluster], [event, event])

    assert [(row.what, row.is_warning) for row in rows] == [("accepted", True), ("joined", False)]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-5, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (47 * 3600, "47h"), (172800, "2d")]
)
def test_write_span(seconds: int, expected: str) -> None:
    assert format_age(timedelta(seconds=seconds)) == expected


def test_time_left_is_formatted() -> None:
    assert [format_time_left(each, NOW) for each in (None, NOW, NOW + timedelta(hours=1))] == ["-", "expired", "60m"]
