"""What counts as one response, in any chunks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.kube.connection import HEAD_SIZE_LIMIT, MAX_HEADERS, HttpProtocolError, ResponseParser

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world"
NOTICED = b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + SIZED
UNSIZED = b"HTTP/1.1 200 OK\r\n\r\nhello, world"


@pytest.mark.parametrize(
    "answer",
    [pytest.param(CHUNKED, id="in chunks"), pytest.param(SIZED, id="sized"), pytest.param(NOTICED, id="announced")],
)
@given(cuts=st.lists(st.integers(0, 120), max_size=8))
def test_response_is_parsed_alike_in_any_chunks(answer: bytes, cuts: list[int]) -> None:
    reader, body = ResponseParser(), b""

    places = sorted({0, len(answer), *(cut for cut in cuts if cut < len(answer))})
    for begin, end in pairwise(places):
        reader.feed(answer[begin:end])
        body += reader.take()

    assert (reader.status, body, reader.is_complete, reader.keeps_alive) == (200, b"hello, world", True, True)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    reader = ResponseParser()
    reader.feed(UNSIZED)
    assert not reader.is_complete

    reader.end()

    assert (reader.is_complete, reader.keeps_alive, reader.take()) == (True, False, b"hello, world")


def test_response_to_a_head_request_ends_with_its_head() -> None:
    reader = ResponseParser(has_body=False)

    reader.feed(SIZED.removesuffix(b"hello, world"))

    assert (reader.status, reader.is_complete, reader.keeps_alive) == (200, True, False)


@pytest.mark.parametrize(
    "part", [pytest.param(CHUNKED[:-8], id="in chunks"), pytest.param(SIZED[:-1], id="sized"), b"HTTP/1.1 200 OK\r\n"]
)
def test_response_that_ends_before_its_length_is_incomplete(part: bytes) -> None:
    reader = ResponseParser()
    reader.feed(part)

    reader.end()

    assert not reader.is_complete


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", id="both"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", id="packed"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", id="upgraded"),
        pytest.param(SIZED + SIZED, id="two answers"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", id="headers without number"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"b" * HEAD_SIZE_LIMIT, id="a header without end"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", id="a chunk without length"),
    ],
)
def test_invalid_response_is_refused(data: bytes) -> None:
    with pytest.raises(HttpProtocolError):
        ResponseParser().feed(data)


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(b"HTTP/1.1 200 ", id="reason phrase"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="header value"),
        pytest.param(CHUNKED[:-5] + b"1;", id="chunk extension"),
        pytest.param(CHUNKED[:-2], id="trailer name"),
        pytest.param(CHUNKED[:-2] + b"X: ", id="trailer value"),
    ],
)
def test_bytes_that_are_not_the_body_are_bounded(begin: bytes) -> None:
    parser = ResponseParser()
    parser.feed(begin)
    for _ in range(3):
        parser.feed(b"x" * (HEAD_SIZE_LIMIT // 4))

    with pytest.raises(HttpProtocolError, match="no end"):
        parser.feed(b"x" * (HEAD_SIZE_LIMIT // 4))


def test_watch_of_many_small_chunks_is_read_without_end() -> None:
    parser, body = ResponseParser(), 0
    parser.feed(CHUNKED.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")

    for _ in range(HEAD_SIZE_LIMIT // 4):
        parser.feed(b"00001\r\na\r\n")
        body += len(parser.take())

    assert body == HEAD_SIZE_LIMIT // 4


def test_trailers_are_not_headers() -> None:
    parser = ResponseParser()

    parser.feed(CHUNKED[:-2] + b"Retry-After: 9\r\n\r\n")

    assert (parser.is_complete, parser.headers) == (True, [("Transfer-Encoding", "chunked")])


def test_unrequested_data_is_refused() -> None:
    reader = ResponseParser()
    reader.feed(SIZED)

    with pytest.raises(HttpProtocolError):
        reader.feed(b"\r\n" + SIZED)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_worse_than_being_refused(noise: bytes) -> None:
    reader = ResponseParser()
    try:
        reader.feed(b"HTTP/1.1 200 OK\r\n" + noise)
        reader.end()
    except HttpProtocolError:
        return
    assert reader.status in (0, 200)
