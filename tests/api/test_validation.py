from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.validation import (
    DurationError,
    format_duration,
    is_dns_label,
    is_dns_subdomain,
    parse_duration,
    validate_dns_label,
    validate_dns_subdomain,
)


@pytest.mark.parametrize(
    ("name", "label", "subdomain"),
    [
        pytest.param("", False, False, id="empty"),
        pytest.param("a\n", False, False, id="trailing newline"),
        pytest.param("-a", False, False, id="leading dash"),
        pytest.param("a-", False, False, id="trailing dash"),
        pytest.param("A", False, False, id="upper case"),
        pytest.param("ａ", False, False, id="full width letter"),  # noqa: RUF001 - the point of the row
        pytest.param("a..b", False, False, id="empty part"),
        pytest.param("a.b", False, True, id="two parts"),
        pytest.param("a-1", True, True, id="plain"),
        pytest.param("a" * 63, True, True, id="longest label"),
        pytest.param("a" * 64, False, True, id="too long for a label"),
        pytest.param("a" * 254, False, False, id="too long for anything"),
    ],
)
def test_dns_names(name: str, label: bool, subdomain: bool) -> None:  # noqa: FBT001 - columns of the table
    assert (is_dns_label(name), is_dns_subdomain(name)) == (label, subdomain)
    assert (not validate_dns_label(name), not validate_dns_subdomain(name)) == (label, subdomain)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("24h", 86400.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("-1m", -60.0),
        ("100ms", 0.1),
        ("1m0.25s", 60.25),
        ("10µs", 0.00001),
        ("1s1s", 2.0),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "h", "1d", " 1h", "1h\n", "1h 2m", "--1h", "1e3s", ".s", "9" * 30 + "h", "٣h"]
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(days=1), "24h0m0s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(milliseconds=10), "10ms"),
        (timedelta(microseconds=7), "7µs"),
        (timedelta(hours=-2), "-2h0m0s"),
    ],
)
def test_durations_are_written_as_go_writes_them(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@given(st.timedeltas(min_value=timedelta(days=-90_000), max_value=timedelta(days=90_000)))
@settings(max_examples=60)
def test_a_written_duration_is_read_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
