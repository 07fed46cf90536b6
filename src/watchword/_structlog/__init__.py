"""structlog, imported without rich: it would load it for tracebacks in colour, and ours are plain text.

rich takes longer to import than all the rest of logging, in processes that never draw anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without(name: str) -> Iterator[None]:
    if name in sys.modules:  # somebody has paid already
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how Python itself marks what cannot be imported
    try:
        yield
    finally:
        del sys.modules[name]


with _without("rich"):
    import structlog

__all__ = ["structlog"]
