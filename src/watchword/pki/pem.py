"""PEM blocks: the text encoding of keys, requests and certificates."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

CERTIFICATE = "CERTIFICATE"
CERTIFICATE_REQUEST = "CERTIFICATE REQUEST"

_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,64})-----\r?\n")


def blocks(pem: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (type, DER) of each readable block; text around blocks is ignored, as OpenSSL does."""
    for kind, body in _bodies(pem):
        if b"-----BEGIN" in body or b":" in body:  # nested blocks or headers: neither is plain DER
            continue
        try:
            yield kind.decode(), base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error:
            continue


def _bodies(pem: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while (begin := _BEGIN.search(pem, position)) is not None:
        marker = b"-----END %s-----" % begin[1]
        end = pem.find(marker, begin.end())
        if end < 0:  # another block may begin behind it
            position = begin.end()
            continue
        yield begin[1], pem[begin.end() : end]
        position = end + len(marker)


def first_block(pem: bytes, kind: str) -> bytes | None:
    """Return the DER of the first block when it is of that type, None otherwise."""
    return next((der if found == kind else None for found, der in blocks(pem)), None)


def armour(der: bytes, kind: str = CERTIFICATE) -> bytes:
    """Wrap DER into a block with lines of 64 characters."""
    text = base64.b64encode(der)
    lines = b"\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (kind.encode(), lines, kind.encode())
