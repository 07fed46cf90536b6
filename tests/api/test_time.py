from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.api.time import parse_http_date


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_date_of_http_is_read_as_it_was_written(instant: datetime) -> None:
    whole = instant.replace(microsecond=0)

    assert parse_http_date(format_datetime(whole, usegmt=True)) == whole


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
