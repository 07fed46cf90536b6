"""structlog, imported without rich.

structlog would load rich for coloured tracebacks, which are not used here, and rich takes longer to import than
the rest of logging.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without(name: str) -> Iterator[None]:
    if name in sys.modules:  # rich is imported already
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
