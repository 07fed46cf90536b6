"""Damages valid input: bytes flipped, cut, repeated, or mixed with other input."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

MOST_CHANGES = 6
LONGEST = 64 * 1024
TOKENS = (
    *(b"", b"\x00", b"\xff\xfe", b"\r\n", b"\n\n", b"{}", b"[]", b"[[[[", b"null", b"true", b"-1", b"1e309", b"9" * 40),
    *(b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"%00", b"%", b"../", b"- ", b": ", b"&a [*a]", b"!!python/name:os"),
    *(
        "\u202e".encode(),
        "\U0001f600".encode(),
        b"=",
        b"==",
        b".",
        b"..",
        b",",
        b"-----BEGIN ",
        b"$patch",
        b"~1",
        b"/-",
    ),
    *(
        b"0x10\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"(" * 200,
        b"a" * 300,
    ),
)


def mutate(seeds: Sequence[bytes], random: Random) -> bytes:
    """Return one of the inputs with a few changes."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.randint(1, MOST_CHANGES)):
        _change(data, seeds, random)
    return bytes(data[:LONGEST])


def _change(data: bytearray, seeds: Sequence[bytes], random: Random) -> None:
    start = random.randint(0, len(data))
    end = min(len(data), start + random.choice((1, 1, 2, 4, 16, 64)))
    match random.randrange(6):
        case 0 if data:
            data[start % len(data)] = random.randrange(256)
        case 1:
            del data[start:end]
        case 2:
            data[start:start] = data[start:end] * random.choice((1, 1, 2, 50))
        case 3:
            data[start:end] = random.choice(TOKENS)
        case 4:
            other = random.choice(seeds)
            data[start:end] = other[random.randint(0, len(other)) :][: random.choice((4, 32, 256))]
        case _:
            del data[start:]
