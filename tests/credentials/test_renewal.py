from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.credentials.lifecycle import RenewalWindow, choose_renewal_time

START = datetime(2026, 1, 1, tzinfo=UTC)


@settings(max_examples=60)
@given(life=st.timedeltas(timedelta(seconds=1), timedelta(days=36500)), seed=st.text(max_size=20))
def test_renewal_lies_in_the_window_of_the_issued_validity(life: timedelta, seed: str) -> None:
    renewal = choose_renewal_time(START, START + life, seed=seed)

    assert START + life * 0.399 <= renewal <= START + life * 0.801


def test_the_choice_is_the_same_after_a_restart_and_differs_between_holders() -> None:
    expires = START + timedelta(hours=1)

    assert choose_renewal_time(START, expires, seed="a") == choose_renewal_time(START, expires, seed="a")
    assert choose_renewal_time(START, expires, seed="a") != choose_renewal_time(START, expires, seed="b")


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-5)])
def test_credential_without_validity_is_due_immediately(life: timedelta) -> None:
    assert choose_renewal_time(START, START + life, seed="a") == START


@pytest.mark.parametrize("bounds", [(0.8, 0.7), (0.5, 0.5), (-0.1, 0.5), (0.5, 1.1)])
def test_window_outside_the_validity_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="window"):
        RenewalWindow(*bounds)


def renewals(holder: int, life: timedelta, until: datetime) -> list[datetime]:
    instants, issued = [], START
    while (issued := choose_renewal_time(issued, issued + life, seed=str(holder))) < until:
        instants.append(issued)
    return instants


@pytest.mark.parametrize(
    "life",
    [
        pytest.param(timedelta(minutes=10), id="the shortest token"),
        pytest.param(timedelta(hours=1), id="an hour"),
        pytest.param(timedelta(hours=3), id="three hours"),
    ],
)
def test_ten_thousand_credentials_of_one_second_never_renew_above_thrice_the_mean_rate(life: timedelta) -> None:
    until = START + 8 * life
    per_minute = Counter(
        instant.replace(second=0, microsecond=0)
        for holder in range(10_000)
        for instant in renewals(holder, life, until)
    )

    mean = per_minute.total() / ((until - START) / timedelta(minutes=1))

    assert max(per_minute.values()) <= 3 * mean
