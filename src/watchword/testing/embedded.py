"""The embedded control plane as a backend of the `plane` fixtures."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NoReturn

from watchword.testing.errors import PlaneUnsuited
from watchword.testing.plane import Backend

AVAILABLE = False


def open_embedded(folder: Path | None, *, with_socket: bool) -> AbstractAsyncContextManager[Backend]:
    """Start a fresh control plane: in memory, or with its data in the folder; on a socket when asked."""
    _refuse(folder, with_socket)


def _refuse(*_: object) -> NoReturn:
    raise PlaneUnsuited("the embedded control plane is not part of this build: run with --plane=kube-apiserver")
