"""Lets libraries compile their regular expressions when they use them, not when they are imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _LazyPattern:
    """Stands for a regular expression; the first use compiles it."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._arguments = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        return getattr(re.compile(*self._arguments), name)  # `re` caches what it compiled


@contextmanager
def lazy_patterns() -> Iterator[None]:
    """Delay the patterns of the modules that are imported inside.

    For libraries whose patterns are slow to compile and are not used here: a class of characters up to U+10FFFF
    takes milliseconds. Such a library must use its patterns by their methods alone.
    """
    compile_now = re.compile
    re.compile = _LazyPattern  # type: ignore[assignment]  # the purpose of this module
    try:
        yield
    finally:
        re.compile = compile_now
