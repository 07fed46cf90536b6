"""Small files that other programs rewrite: tokens, certificates, kubeconfigs."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from watchword.kube.errors import ConfigError

SIZE_LIMIT = 16 * 1024 * 1024
RECHECK_SECONDS = 1.0
"""How long a file is assumed to be unchanged."""


def read_small_file(path: Path, what: str, *, limit: int = SIZE_LIMIT) -> bytes:
    """Return a regular file's bytes; `ConfigError` when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not block
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{what} {path} is not a regular file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or "its name is not valid"
        raise ConfigError(f"{what} {path} cannot be read: {reason.lower()}") from cause
    if len(data) > limit:
        raise ConfigError(f"{what} {path} is larger than {limit} bytes")
    return data


class WatchedFile:
    """A file whose content is read again once it has changed; the last good content survives failed reads."""

    __slots__ = ("_content", "_signature", "path", "what")

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self._signature: tuple[int, ...] = ()
        self._content = b""

    def read(self) -> bytes:
        """Return the content; `ConfigError` when it could never be read or was always empty."""
        try:
            signature = self._look()
            if not self._content or signature != self._signature:  # an empty content is an error
                self._content = self._read_filled()
                self._signature = signature
        except ConfigError:
            if not self._content:
                raise
        return self._content

    def _look(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()  # follows links: mounted volumes rotate by swapping one
        except (OSError, ValueError):
            return ()
        return (found.st_mtime_ns, found.st_ino, found.st_size, found.st_dev)

    def _read_filled(self) -> bytes:
        content = read_small_file(self.path, self.what)
        if not content.strip():  # the writer truncated the file and has not written it yet
            raise ConfigError(f"{self.what} {self.path} is empty")
        return content


def write_private_file(path: Path, data: bytes) -> None:
    """Replace a file atomically, readable by its owner alone."""
    target = path.resolve()  # replace the file that a link points to, not the link
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be written: {(cause.strerror or 'unknown reason').lower()}") from cause


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
