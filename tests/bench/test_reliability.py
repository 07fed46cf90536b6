"""The reliability bars are reached by small fleets, and a bar that is missed says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from bench.reliability.__main__ import parse
from bench.reliability.credentials import CredentialKind
from bench.reliability.decoders import DECODERS
from bench.reliability.fuzz import fuzz_decoder
from bench.reliability.fuzzed_objects import fuzz_reconcilers
from bench.reliability.fuzzed_requests import fuzz_requests
from bench.reliability.herd import MOST, renewals_of_a_day
from bench.reliability.soak import judge


@pytest.mark.slow
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


@pytest.mark.parametrize("name", DECODERS)
def test_damaged_input_of_a_decoder_is_refused_by_its_own_errors(name: str) -> None:
    assert list(fuzz_decoder(name, DECODERS[name], 100, Random(1))) == []


def test_damaged_requests_and_objects_are_handled() -> None:
    assert fuzz_requests(200, Random(1)) == []
    assert fuzz_reconcilers(40, Random(1)) == []


def test_error_that_a_decoder_does_not_refuse_with_is_found() -> None:
    broken = replace(DECODERS["kubeconfig"], refusals=())

    assert any("kubeconfig: ConfigError" in finding for finding in fuzz_decoder("kubeconfig", broken, 50, Random(1)))


@pytest.mark.parametrize("kind", CredentialKind)
def test_ten_thousand_credentials_of_one_minute_are_not_renewed_together(kind: CredentialKind) -> None:
    day = renewals_of_a_day(kind, 10_000, timedelta(hours=4))

    assert max(day) <= MOST * sum(day) / len(day)


@pytest.mark.parametrize(
    ("row", "is_flat"),
    [
        pytest.param([50.0, 90, 100, 101, 99, 100, 102], True, id="grows while it warms up alone"),
        pytest.param([50.0, 90, 100, 110, 120, 130, 140], False, id="goes on growing"),
        pytest.param([0.0, 0, 0, 0, 0, 0, 0], True, id="nothing at all"),
    ],
)
def test_soak_compares_the_end_with_the_time_after_the_warm_up(row: list[float], *, is_flat: bool) -> None:
    figure = judge({"memory of hub (MiB)": row}, warm_up=1, requests=["a"] * 60)

    assert figure.reached is is_flat
