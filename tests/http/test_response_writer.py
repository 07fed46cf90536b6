"""Answers as bytes."""

from __future__ import annotations

import time

from watchword.api.http import Response
from watchword.http.connection import LARGE, encode_response, encode_response_parts
from watchword.http.server import http_date


def test_response_has_its_length_and_connection_header() -> None:
    written = encode_response(Response(201, (("Content-Type", "text/plain"),), b"hi"), "now", keep_alive=False)

    assert written == (
        b"HTTP/1.1 201 Created\r\nDate: now\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n"
        b"Connection: close\r\n\r\nhi"
    )


def test_what_a_header_quotes_cannot_end_it() -> None:
    answer = Response(200, (("Warning", '299 - "a\r\nSet-Cookie: b\n\0"'),))

    head = encode_response(answer, "now", keep_alive=True)

    assert b'Warning: 299 - "a  Set-Cookie: b  "\r\n' in head


def test_dates_are_written_as_http_does() -> None:
    assert http_date(784111777) == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert http_date(0) == time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(0))


def test_a_large_body_is_written_without_being_copied() -> None:
    answer = Response(200, body=b"x" * LARGE)

    first, second = encode_response_parts(answer, "now", keep_alive=True, with_body=True)

    assert first.endswith(b"\r\n\r\n")
    assert second is answer.body
