"""Each event of a running fleet is shown at the time at which it happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from watchword.api.limits import MAX_LOG_BYTES
from watchword.health.recent_events import FleetEvent
from watchword.local.pods import EventLog, PodLogStream

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
ISSUED = "2026-06-01T09:00:00Z"
FIRST = FleetEvent(ISSUED, "edge", "certificate valid until June 2")
RENEWED = FleetEvent(ISSUED, "edge", "certificate valid until June 3")
JOINED = FleetEvent("2026-06-01T10:00:00Z", "edge", "the cluster has joined")


def test_event_is_shown_at_the_time_that_it_carries() -> None:
    late = FleetEvent("2026-06-01T11:00:00.123456Z", "edge", "refused")
    log = EventLog()

    assert log.read([FIRST, JOINED], NOW) == [FIRST, JOINED]
    assert log.read([FIRST, JOINED, late], NOW) == [FIRST, JOINED, late]


def test_message_that_replaces_another_is_shown_at_the_time_of_the_change() -> None:
    log = EventLog()
    log.read([FIRST, JOINED], NOW - timedelta(hours=1))

    changed = log.read([RENEWED, JOINED], NOW)
    later = log.read([RENEWED, JOINED], NOW + timedelta(hours=1))

    assert [(row.at, row.what) for row in changed] == [
        (JOINED.at, JOINED.what),
        ("2026-06-01T12:00:00Z", RENEWED.what),
    ]
    assert later == changed


def test_event_of_another_object_at_the_same_instant_keeps_its_time() -> None:
    other = FleetEvent(ISSUED, "core", "certificate valid until June 2")
    log = EventLog()
    log.read([FIRST], NOW)

    assert log.read([other], NOW) == [other]


def test_log_of_the_fleet_is_rotated(tmp_path: Path) -> None:
    stream = PodLogStream(tmp_path / "up.log")
    stream.write("x" * MAX_LOG_BYTES + "\n")
    stream.write("next\n")
    stream.write("last\n")

    assert (tmp_path / "up.log").read_text() == "next\nlast\n"
    assert (tmp_path / "up.log.1").stat().st_size == MAX_LOG_BYTES + 1
