"""Schedules and when they are next due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from watchword.apiserver.kinds.cron import BadSchedule, parse_schedule

NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)  # a Wednesday of a leap year


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        pytest.param("* * * * *", datetime(2024, 2, 29, 0, 0, tzinfo=UTC), id="every minute"),
        pytest.param("@hourly", datetime(2024, 2, 29, 0, 0, tzinfo=UTC), id="hourly"),
        pytest.param("*/15 9-17 * * mon-fri", datetime(2024, 2, 29, 9, 0, tzinfo=UTC), id="office hours"),
        pytest.param("0 0 29 2 *", datetime(2024, 2, 29, 0, 0, tzinfo=UTC), id="leap day"),
        pytest.param("0 0 1 * 5", datetime(2024, 3, 1, 0, 0, tzinfo=UTC), id="either day suffices"),
        pytest.param("0 0 31 4 *", None, id="a day that never comes"),
        pytest.param("5/20 * * * *", datetime(2024, 2, 29, 0, 5, tzinfo=UTC), id="a step from a start"),
    ],
)
def test_next_after(schedule: str, due: datetime | None) -> None:
    assert parse_schedule(schedule).next_after(NOW) == due


@pytest.mark.parametrize(
    ("schedule", "complaint"),
    [
        pytest.param("", "empty spec string", id="nothing"),
        pytest.param("@never", "unrecognized descriptor: @never", id="unknown name"),
        pytest.param("60 * * * *", "end of range (60) above maximum (59): 60", id="too high"),
        pytest.param("* * 0 * *", "beginning of range (0) below minimum (1): 0", id="too low"),
        pytest.param("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1", id="backwards"),
        pytest.param("*/0 * * * *", "step of range should be a positive number: */0", id="no step"),
        pytest.param("x * * * *", "failed to parse int from x", id="not a number"),
    ],
)
def test_what_is_no_schedule(schedule: str, complaint: str) -> None:
    with pytest.raises(BadSchedule) as refusal:
        parse_schedule(schedule)

    assert str(refusal.value).startswith(complaint)
