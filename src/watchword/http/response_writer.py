"""Writes HTTP/1.1 responses."""

from __future__ import annotations

from http import HTTPStatus

from watchword.api.http import Response

CHUNK = b"%x\r\n%b\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

LARGE = 64 * 1024
"""A body of at least this size is written separately: copying it behind its head would hold it twice."""

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_BREAKS = str.maketrans("\r\n\0", "   ")


def head(answer: Response, framing: str, date: str, *, keep_alive: bool) -> bytes:
    """Return the head of a response; `framing` is the header that delimits its body, or empty."""
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, '')}\r\nDate: {date}\r\n{framing}"]
    # Client input may be part of a header: line breaks in it must not end the header.
    lines.extend(f"{name}: {value.translate(_BREAKS)}\r\n" for name, value in answer.headers)
    lines.append("\r\n" if keep_alive else "Connection: close\r\n\r\n")
    return "".join(lines).encode("utf-8", "replace")


def encode_response(answer: Response, date: str, *, keep_alive: bool, with_body: bool = True) -> bytes:
    """Return a response whose body is complete; a HEAD request gets the head only."""
    start = head(answer, f"Content-Length: {len(answer.body)}\r\n", date, keep_alive=keep_alive)
    return start + answer.body if with_body else start


def encode_response_parts(answer: Response, date: str, *, keep_alive: bool, with_body: bool) -> tuple[bytes, ...]:
    """Return a response whose body is complete, as the chunks to write: joined, or a large body separately."""
    if not with_body or len(answer.body) < LARGE:
        return (encode_response(answer, date, keep_alive=keep_alive, with_body=with_body),)
    return encode_response(answer, date, keep_alive=keep_alive, with_body=False), answer.body
