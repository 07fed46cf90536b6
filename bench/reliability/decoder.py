"""One decoder of untrusted input, with what it takes to fuzz it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decoder:
    """One decoder; anything that it raises besides its refusals is a defect."""

    seeds: tuple[bytes, ...]
    decode: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = ()


def text_of(data: bytes) -> str:
    """Return damaged bytes as a text; what is no UTF-8 is replaced."""
    return data.decode(errors="replace")
