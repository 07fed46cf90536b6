"""Quantities and their one canonical form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.quantity import canonical_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("0.5", "500m", id="half"),
        pytest.param("1000m", "1", id="thousand thousandths"),
        pytest.param("1024Mi", "1Gi", id="binary"),
        pytest.param("1.5Gi", "1536Mi", id="binary fraction"),
        pytest.param("0.5Ki", "512", id="binary below its base"),
        pytest.param("100000", "100k", id="decimal suffix"),
        pytest.param("123456789", "123456789", id="no suffix divides it"),
        pytest.param("12e6", "12e6", id="exponent stays"),
        pytest.param("5E", "5E", id="exa"),
        pytest.param("0Ki", "0", id="zero"),
        pytest.param("-1", "-1", id="negative"),
        pytest.param("0.0000000001", "1n", id="rounded up to a billionth"),
        pytest.param("99999999999E", "9223372036854775807", id="no more than 64 bits"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert canonical_quantity(text) == canonical


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "--1", ".", "1KiB", "1e", "9" * 200, "1e99999999999999999x"])
def test_what_is_no_quantity(text: str) -> None:
    assert canonical_quantity(text) is None


@given(
    number=st.integers(-(10**9), 10**9),
    part=st.integers(0, 999),
    suffix=st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e6"]),
)
@settings(max_examples=60)
def test_the_canonical_form_keeps_the_value_and_itself(number: int, part: int, suffix: str) -> None:
    text = f"{number}.{part:03}{suffix}"
    canonical = canonical_quantity(text)

    assert canonical is not None
    assert canonical_quantity(canonical) == canonical
    if suffix not in ("Ki", "Mi", "Gi"):  # a binary quantity is rounded up to a whole number
        assert parse_quantity(canonical) == parse_quantity(text)
