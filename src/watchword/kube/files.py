"""Small files that other programs rewrite: tokens, certificates, kubeconfigs."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from watchword.kube.errors import ConfigError
from watchword.kube.trusted_folder import open_trusted_folder

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
    """Replace a file in one step, readable by its owner alone; never leaves a half-written one behind.

    A link of this user or root is followed, and what it points at is replaced; another user's link is refused.
    """
    try:
        with open_trusted_folder(path) as (folder, name):
            _replace_in(folder, name, data)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be written: {(cause.strerror or 'unknown reason').lower()}") from cause


def _replace_in(folder: int, name: str, data: bytes) -> None:
    temporary = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync_folder(folder)


def _sync_folder(folder: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
