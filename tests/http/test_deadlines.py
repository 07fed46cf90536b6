"""When a client has had its time."""

from __future__ import annotations

import pytest

from watchword.api.http import Peer
from watchword.http.connection import ConnectionDeadlines
from watchword.http.limits import ServerLimits
from watchword.http.request_parser import RequestLimits, RequestParser

LIMITS = ServerLimits(
    header_seconds=10, request_seconds=60, keepalive_seconds=180, write_seconds=30, write_bytes_per_second=100
)


def parser_after(data: bytes) -> RequestParser:
    parser = RequestParser(RequestLimits(1_000, 1_000), Peer())
    parser.feed(data)
    return parser


IDLE, HEAD = parser_after(b""), parser_after(b"GET / HTTP/1.1\r\n")
BODY = parser_after(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")


@pytest.mark.parametrize(
    ("progress", "is_first", "patience"),
    [
        pytest.param(IDLE, True, 10, id="connected, no request yet"),
        pytest.param(HEAD, True, 10, id="head of the first request"),
        pytest.param(HEAD, False, 10, id="head of a later request"),
        pytest.param(BODY, False, 60, id="body"),
        pytest.param(IDLE, False, 180, id="between requests"),
    ],
)
def test_reading_is_bounded(progress: RequestParser, is_first: bool, patience: float) -> None:  # noqa: FBT001 - a row
    deadlines = ConnectionDeadlines(LIMITS, 0.0)
    deadlines.restart(1000.0, is_first=is_first)

    assert not deadlines.is_read_overdue(1000.0 + patience, progress)
    assert deadlines.is_read_overdue(1000.1 + patience, progress)


@pytest.mark.parametrize(
    ("left", "overdue"),
    [
        pytest.param([10_000, 10_000], True, id="reads nothing"),
        pytest.param([10_000, 9_000], True, id="reads too slowly"),
        pytest.param([10_000, 6_000], False, id="reads steadily"),
        pytest.param([10_000, 6_000, 2_000], False, id="goes on reading"),
        pytest.param([10_000, 6_000, 6_000], True, id="stops in the middle"),
    ],
)
def test_writing_is_bounded(left: list[int], overdue: bool) -> None:  # noqa: FBT001 - a row of the table
    deadlines = ConnectionDeadlines(LIMITS, 0.0)

    found = [deadlines.is_write_overdue(35.0 * number, size) for number, size in enumerate(left)]

    assert found == [*([False] * (len(left) - 1)), overdue]


def test_client_that_reads_again_starts_anew() -> None:
    deadlines = ConnectionDeadlines(LIMITS, 0.0)
    deadlines.is_write_overdue(0.0, 10_000)

    deadlines.writable()

    assert not deadlines.is_write_overdue(100.0, 10_000)
