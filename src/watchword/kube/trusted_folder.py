"""Opens the folder in which a private file is written, without following links of other users."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchword.kube.errors import ConfigError

MAXIMUM_LINKS = 40  # as many as Linux follows
ROOT = 0
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_trusted_folder(path: Path) -> Iterator[tuple[int, str]]:
    """Open the folder that holds a path, made when it is missing; return its descriptor and the name within it.

    Links are followed only when this user or root owns them: in a shared folder, another user's link would choose
    which file is replaced. Raises `ConfigError` for such a link, else `OSError`.
    """
    descriptor, name = _walk(path)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


def _walk(path: Path) -> tuple[int, str]:
    """Return the opened folder and the last name; every step is taken from an opened folder, so none can be swapped."""
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
