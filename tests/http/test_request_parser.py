"""Requests from bytes: however they are cut, and whatever they are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.http import Peer, Request
from watchword.http.request_parser import ParsedRequest, RejectedRequest, RequestLimits, RequestParser, split_target

LIMITS = RequestLimits(header_bytes=2_000, body_bytes=100)
GET = b"GET /api?watch=1&a=%2F+b HTTP/1.1\r\nHost: x\r\nX-Who: \xc3\xa9\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"PUT /y HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Late: 1\r\n\r\n"
)


def read(*pieces: bytes) -> list[ParsedRequest | RejectedRequest]:
    reader = RequestParser(LIMITS, Peer("10.0.0.1"))
    return [found for piece in pieces for found in reader.feed(piece)]


def requests(found: list[ParsedRequest | RejectedRequest]) -> list[Request]:
    return [each.request for each in found if isinstance(each, ParsedRequest)]


def test_a_request_becomes_plain_data() -> None:
    (found,) = read(GET)

    assert found == ParsedRequest(
        Request("GET", "/api", (("watch", "1"), ("a", "/ b")), (("Host", "x"), ("X-Who", "é")), b"", Peer("10.0.0.1")),
        keep_alive=True,
        chunks=True,
    )


def test_a_body_in_chunks_is_one_body_and_what_follows_it_is_no_header() -> None:
    (request,) = requests(read(CHUNKED))

    assert request.body == b"hello"
    assert [name for name, _ in request.headers] == ["Host", "Transfer-Encoding"]


@settings(max_examples=60)
@given(cuts=st.lists(st.integers(0, len(GET + POST + CHUNKED)), max_size=8))
def test_the_same_bytes_say_the_same_wherever_they_are_cut(cuts: list[int]) -> None:
    stream = GET + POST + CHUNKED
    edges = [0, *sorted(cuts), len(stream)]

    found = read(*(stream[start:end] for start, end in pairwise(edges)))

    assert [(each.path, each.body) for each in requests(found)] == [("/api", b""), ("/x", b"hello"), ("/y", b"hello")]


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        pytest.param(b"hello\r\n\r\n", 400, id="no request at all"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, id="another protocol"),
        pytest.param(b"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="no path"),
        pytest.param(b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="a tunnel"),
        pytest.param(b"GET /\r\n\r\n", 505, id="no version"),
        pytest.param(b"GET / HTTP/1.1\r\nA B: c\r\n\r\n", 400, id="a space in a header's name"),
        pytest.param(b"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", 400, id="a return in a header"),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, id="two different lengths"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            id="a length and chunks",
        ),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, id="a negative length"),
        pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="a chunk without a size"),
        pytest.param(b"GET /" + b"x" * 3_000 + b" HTTP/1.1\r\n\r\n", 431, id="a long target"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 300 + b"\r\n", 431, id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 3_000, 431, id="a long header that does not end"),
        pytest.param(b"\r\n" * 2_000, 431, id="nothing without end"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", 413, id="a large body announced"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"32\r\n" + b"x" * 50 + b"\r\n33\r\n"
            + b"x" * 51, 413, id="a large body in chunks",
        ),
        pytest.param(CHUNKED[:-2] + b"X: 1\r\n" * 1_000 + b"\r\n", 431, id="headers without end after a body"),
    ],
)  # fmt: skip
def test_what_is_no_acceptable_request_is_refused_and_nothing_after_it_is_read(stream: bytes, status: int) -> None:
    found = read(stream, GET)

    assert [each.status if isinstance(each, RejectedRequest) else each for each in found] == [status]


def chunked(rest: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + rest


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"GET /", id="target"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: ", id="header value"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n", id="header name"),
        pytest.param(chunked(b"1;"), id="chunk extension"),
        pytest.param(chunked(b"1;a="), id="value of a chunk extension"),
        pytest.param(chunked(b"1\r\na\r\n0\r\n"), id="trailer name"),
        pytest.param(chunked(b"1\r\na\r\n0\r\nX: "), id="trailer value"),
    ],
)
def test_bytes_that_are_not_the_body_are_bounded(begin: bytes) -> None:
    parser = RequestParser(LIMITS, Peer())
    parser.feed(begin)

    found = [each for _ in range(LIMITS.header_bytes // 100 + 1) for each in parser.feed(b"x" * 100)]

    assert found == [RejectedRequest(431, "Request Header Fields Too Large")]


def test_chunk_lines_add_up_when_they_are_longer_than_needed() -> None:
    found = read(*[chunked(b"")], *[b"1;" + b"x" * 100 + b"\r\na\r\n"] * 30)

    assert found == [RejectedRequest(431, "Request Header Fields Too Large")]


def test_body_of_single_byte_chunks_is_accepted() -> None:
    limits = RequestLimits(header_bytes=200, body_bytes=10_000)
    parser = RequestParser(limits, Peer())

    found = [each for piece in [chunked(b""), *[b"1\r\na\r\n"] * 9_000, b"0\r\n\r\n"] for each in parser.feed(piece)]

    assert [len(request.body) for request in requests(found)] == [9_000]


def test_requests_before_a_refusal_are_still_there() -> None:
    first, second = read(GET + b"hello\r\n\r\n")

    assert isinstance(first, ParsedRequest)
    assert second == RejectedRequest(400, "Bad Request")


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        pytest.param(b"HTTP/1.1\r\nHost: x\r\n\r\n", True, id="as usual"),
        pytest.param(b"HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", False, id="the client's wish"),
        pytest.param(b"HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False, id="an older client"),
        pytest.param(
            b"HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", False, id="another protocol offered"
        ),
    ],
)
def test_how_a_connection_goes_on(lines: bytes, *, keep_alive: bool) -> None:
    (found,) = read(b"GET / " + lines)

    assert isinstance(found, ParsedRequest)
    assert found.keep_alive is keep_alive


def test_client_that_expects_100_continue_receives_it_once() -> None:
    reader = RequestParser(LIMITS, Peer())
    reader.feed(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")

    assert reader.take_continue()
    assert not reader.take_continue()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(b"/a%2Fb?x=%20&y", ("/a%2Fb", (("x", " "), ("y", ""))), id="path and query"),
        pytest.param(b"https://host:1/a?b=c", ("/a", (("b", "c"),)), id="as through a proxy"),
        pytest.param(b"http://host?b=c", ("/", (("b", "c"),)), id="no path but a query"),
        pytest.param(b"/a#b?c", ("/a", ()), id="a fragment"),
        pytest.param(b"ftp://host/a", None, id="not for us"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_split_target(target: bytes, expected: tuple[str, tuple[tuple[str, str], ...]] | None) -> None:
    assert split_target(target) == expected


@settings(max_examples=60)
@given(
    pieces=st.lists(
        st.binary(max_size=40)
        | st.sampled_from([GET, POST, CHUNKED, b"\r\n", b"Content-Length: 9\r\n", b"HTTP/1.1", b"POST / "]),
        max_size=8,
    )
)
def test_no_bytes_make_the_reader_fail(pieces: list[bytes]) -> None:
    found = read(*pieces)

    assert all(not isinstance(each, RejectedRequest) for each in found[:-1])
