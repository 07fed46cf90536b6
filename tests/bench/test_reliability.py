"""The reliability bars are reached by small fleets, and a bar that is missed says so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bench.reliability.__main__ import parse
from bench.reliability.credentials import CredentialKind
from bench.reliability.herd import MOST, renewals_of_a_day


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("rotations --seeds=1 --hours=1 --clusters=1 --secrets=1", id="rotations"),
        pytest.param("outage --seeds=1 --lives=2", id="outage"),
        pytest.param("skew --hours=1", id="clock skew"),
    ],
)
def test_small_fleet_reaches_the_bar(command: str) -> None:
    options = parse(command.split())

    figure = options.measure(options)

    assert figure.reached, str(figure)


@pytest.mark.parametrize("kind", CredentialKind)
def test_ten_thousand_credentials_of_one_minute_are_not_renewed_together(kind: CredentialKind) -> None:
    day = renewals_of_a_day(kind, 10_000, timedelta(hours=4))

    assert max(day) <= MOST * sum(day) / len(day)
