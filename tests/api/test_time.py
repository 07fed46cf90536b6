from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.api.time import bounded, parse_any_rfc3339, parse_http_date, parse_rfc3339, rfc3339, rfc3339_micro
from watchword.api.validation import LONGEST_SPAN


@given(st.datetimes(timezones=st.timezones()))
def test_every_instant_is_read_as_it_was_written(instant: datetime) -> None:
    try:
        expected = instant.astimezone(UTC)
    except OverflowError:
        return  # before the first or after the last instant in UTC

    assert parse_any_rfc3339(rfc3339_micro(instant)) == expected
    assert parse_any_rfc3339(rfc3339(instant)) == expected.replace(microsecond=0)


@given(st.datetimes(timezones=st.just(UTC)))
def test_centuries_can_be_added_to_every_instant_of_another_writer(instant: datetime) -> None:
    read = parse_rfc3339(rfc3339_micro(instant))

    assert read is not None
    assert read == instant or read.year in (1000, 9000)
    assert read - 3 * LONGEST_SPAN < read < read + 3 * LONGEST_SPAN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-01-01T00:00:00.123456789Z", datetime(2026, 1, 1, 0, 0, 0, 123456, UTC), id="nanoseconds"),
        pytest.param("2026-01-01T01:00:00,5+01:00", datetime(2026, 1, 1, 0, 0, 0, 500000, UTC), id="a zone"),
        pytest.param("2026-01-01T24:00:00Z", None, id="hour 24"),
        pytest.param("2026-01-01T00:00:60Z", None, id="a leap second"),
        pytest.param("2026-02-30T00:00:00Z", None, id="a day that does not exist"),
        pytest.param("2026-01-01T00:00:00", None, id="no zone"),
        pytest.param("2026-01-01 00:00:00Z", None, id="no T"),
        pytest.param("2026-01-01t00:00:00z", None, id="lower case"),
    ],
)
def test_only_rfc_3339_with_a_zone_is_read(text: str, expected: datetime | None) -> None:
    assert parse_rfc3339(text) == expected


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_date_of_http_is_read_as_it_was_written(instant: datetime) -> None:
    whole = instant.replace(microsecond=0)
    read = parse_http_date(format_datetime(whole, usegmt=True))

    assert read == bounded(whole)
    assert read - 3 * LONGEST_SPAN < read < read + 3 * LONGEST_SPAN


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no header"),
        pytest.param("Sun, 06 Nov 1994 08:49:37", id="no zone"),
        pytest.param("Sun, 06 Nov 1994 08:49:37 +0100", id="another zone"),
        pytest.param("Sunday, 06-Nov-94 08:49:37 GMT", id="the obsolete form"),
        pytest.param("Sun, 31 Feb 1994 08:49:37 GMT", id="a day that does not exist"),
        pytest.param("Sun, 06 Nox 1994 08:49:37 GMT", id="a month that does not exist"),
        pytest.param("Sun, 06 Nov 0000 08:49:37 GMT", id="a year that does not exist"),
        pytest.param("Sun, 06 Nov 1994 08:49:37 GMT\n", id="a line break"),
        pytest.param("Sun, ٠٦ Nov 1994 08:49:37 GMT", id="other digits"),
    ],
)
def test_what_is_no_date_of_http_is_not_read(text: str) -> None:
    assert parse_http_date(text) is None
