"""structlog, imported without the libraries that it would load for features that are not used here.

They are colours on Windows, coloured tracebacks and other kinds of threads; where they are installed, they take
longer to import than the rest of logging.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNUSED = ("better_exceptions", "colorama", "greenlet", "rich")


@contextmanager
def _without(*names: str) -> Iterator[None]:
    hidden = [name for name in names if name not in sys.modules]  # those that are imported already stay
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python itself marks what cannot be imported
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with _without(*UNUSED):
    import structlog

__all__ = ["structlog"]
