"""One process per data file: the lock that a crash releases."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from watchword.apiserver.store.errors import StoreLocked, StoreOpenError


class FileLock:
    """Holds an advisory lock until released or until the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise StoreOpenError(
                f"cannot create the lock {path}: {cause.strerror}: check the directory's mode"
            ) from cause
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as cause:
            os.close(self._descriptor)
            raise StoreLocked(f"{path.with_suffix('')} is in use by another process: stop it first") from cause

    def release(self) -> None:
        """Let others in."""
        os.close(self._descriptor)
