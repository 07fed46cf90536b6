"""aiohttp, imported without the trust stores that it reads at import: each of our connections brings its own.

Reading them takes longer than all the rest of a start-up. The variables are OpenSSL's own names for where
the system's authorities are; they are put back before anybody else can look.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def _without_system_authorities() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _PLACES}
    os.environ.update(dict.fromkeys(_PLACES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _without_system_authorities():
    import aiohttp

__all__ = ["aiohttp"]
