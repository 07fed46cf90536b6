"""How a credential fares follows from its life alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from watchword.fleet.health import Health, Life, judge_authority, judge_passing, judge_renewed

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = Life(START, START + 100 * DAY)
TOLD = Life(START, START + 100 * DAY, START + 50 * DAY)


@pytest.mark.parametrize(
    ("judge", "life", "age", "expected"),
    [
        pytest.param(judge_renewed, Life(), 0, Health.UNKNOWN, id="nobody says how long it lives"),
        pytest.param(judge_renewed, YEAR, 100, Health.EXPIRED, id="expired to the second"),
        pytest.param(judge_renewed, YEAR, 85, Health.OVERDUE, id="past 80 % and the tolerance"),
        pytest.param(judge_renewed, YEAR, 80, Health.DUE, id="at 80 %"),
        pytest.param(judge_renewed, YEAR, 79.9, Health.GOOD, id="before 80 %"),
        pytest.param(judge_renewed, TOLD, 49, Health.GOOD, id="before the instant it told"),
        pytest.param(judge_renewed, TOLD, 50, Health.DUE, id="at the instant it told"),
        pytest.param(judge_renewed, TOLD, 55, Health.OVERDUE, id="long after the instant it told"),
        pytest.param(judge_renewed, Life(expires=START + DAY), 0.9, Health.GOOD, id="only its end is known"),
        pytest.param(judge_authority, YEAR, 100, Health.EXPIRED, id="an authority that has ended"),
        pytest.param(judge_authority, YEAR, 10, Health.DUE, id="an authority with ninety days left"),
        pytest.param(judge_authority, YEAR, 9, Health.GOOD, id="an authority with more"),
        pytest.param(judge_passing, Life(expires=START), 0, Health.EXPIRED, id="a token whose time has come"),
        pytest.param(judge_passing, Life(), 0, Health.GOOD, id="a token for ever"),
    ],
)
def test_judgement(judge: Callable[..., Health], life: Life, age: float, expected: Health) -> None:
    assert judge(life, now=START + age * DAY) is expected
