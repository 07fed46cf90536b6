"""Small files that other programs rewrite: tokens, certificates, kubeconfigs."""

import contextlib
import os
import secrets
import stat
from collections import deque
from pathlib import Path

from watchword.kube.errors import ConfigError

MAXIMUM_LINKS = 40  # as many as Linux follows
ROOT = 0
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _open_trusted_folder(path: Path) -> tuple[int, str]:
    """Open the folder that holds a path, made when it is missing; return its descriptor and the name within it.

    Links are followed only when this user or root owns them: in a shared folder, another user's link would choose
    which file is replaced. Every step is taken from an opened folder, so none can be swapped. Raises `ConfigError` for
    such a link, else `OSError`.
    """
    rest = deque(path.absolute().parts[1:])
    folder, links = os.open("/", _FOLDER), 0
    try:
        while True:
            name = rest.popleft()
            target = _target_of_link(folder, name, path)
            if target is not None:
                links += 1
                if links > MAXIMUM_LINKS:
                    raise ConfigError(f"{path} leads through too many links: give the path itself")
                rest.extendleft(reversed([part for part in target.parts if part != "/"]))
                folder = _replaced(folder, "/") if target.is_absolute() else folder
            elif not rest:
                return folder, name
            else:
                folder = _replaced(folder, name)
    except BaseException:
        os.close(folder)
        raise


def _target_of_link(folder: int, name: str, path: Path) -> Path | None:
    """Return where a link leads, None for anything else; `ConfigError` when another user made it."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(found.st_mode):
        return None
    if found.st_uid not in (os.geteuid(), ROOT):
        raise ConfigError(f"{path} leads through the link {name} of another user: give a path in a folder of your own")
    return Path(os.readlink(name, dir_fd=folder))


def _replaced(folder: int, name: str) -> int:
    """Open a folder within another, made when it is missing, and close the other."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


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
                content = read_small_file(self.path, self.what)
                if not content.strip():  # the writer truncated the file and has not written it yet
                    raise ConfigError(f"{self.what} {self.path} is empty")
                self._content, self._signature = content, signature
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


def write_private_file(path: Path, data: bytes) -> None:
    """Replace a file in one step, readable by its owner alone; never leaves a half-written one behind.

    A link of this user or root is followed, and what it points at is replaced; another user's link is refused.
    """
    try:
        folder, name = _open_trusted_folder(path)
        try:
            _replace_in(folder, name, data)
        finally:
            os.close(folder)
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
