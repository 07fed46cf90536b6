"""The data directory of a fleet on this machine: ours, private, and used by one process at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from watchword.admin.errors import AdminError, InvalidInput, NotReady, OperationRefused
from watchword.apiserver.instance import require_private_directory
from watchword.apiserver.pki_directory import write_private
from watchword.apiserver.store.model import StoreOpenError
from watchword.local.layout import FleetLayout, read_layout

LOCK, LAYOUT_FILE, LOG = "lock", "fleet.json", "up.log"
EPHEMERAL_PREFIX = "watchword-fleet-"
POLL_INTERVAL = 0.05


def default_data_directory(environment: dict[str, str] | None = None) -> Path:
    """Return the default folder of a fleet: in the user's state directory (XDG)."""
    env = os.environ if environment is None else environment
    state = env.get("XDG_STATE_HOME") or ""
    base = Path(state) if state.startswith("/") else Path(env.get("HOME") or "~").expanduser() / ".local" / "state"
    return base / "watchword"


class FleetDirectory(Struct, frozen=True):
    """Files of one fleet. `lock` it before use."""

    path: Path

    def control_plane_path(self, name: str) -> Path:
        """Return the data directory of one control plane."""
        return self.path / name

    @property
    def log(self) -> Path:
        """The log file of the process, since the terminal shows the fleet."""
        return self.path / LOG

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig: a context for the hub, which is the current one, and one for each cluster."""
        return self.path / "kubeconfig"

    def recorded(self) -> FleetLayout | None:
        """Return the layout of an earlier start."""
        try:
            return read_layout((self.path / LAYOUT_FILE).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise InvalidInput(f"{self.path / LAYOUT_FILE} cannot be read: {(cause.strerror or '').lower()}") from cause

    def record(self, layout: FleetLayout) -> None:
        """Keep the layout; a crash leaves the old one or the new one."""
        write_private(self.path / LAYOUT_FILE, msgspec.json.format(msgspec.json.encode(layout)) + b"\n")

    def require_ours(self) -> None:
        """Return when the directory is empty or holds a fleet; `OperationRefused` for anything else."""
        if self.recorded() is not None:
            return
        # A crash before the mark was written leaves the lock and, at most, half a mark.
        others = [entry.name for entry in self.path.iterdir() if entry.name != LOCK and not _is_partial_layout(entry)]
        if others:
            raise OperationRefused(
                f"{self.path} is not the data directory of a fleet (it holds {min(others)}): choose another --data-dir"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory; raise `OperationRefused` when it is locked or foreign, else `InvalidInput`."""
        try:
            require_private_directory(self.path)
            self.require_ours()
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise InvalidInput(f"{self.path} cannot be used: {(cause.strerror or 'unknown').lower()}") from cause
        try:
            if not _try_lock(descriptor):
                raise OperationRefused(
                    f"a fleet already runs in {self.path} (process {_holder(descriptor) or 'unknown'}): stop it with "
                    f"`watchword down --data-dir {self.path}`, or choose another --data-dir"
                )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def discard_failed_start(folder: FleetDirectory) -> Iterator[None]:
    """Remove what a first start made that was refused before it served anything; the folder is locked."""
    is_new = folder.recorded() is None
    try:
        yield
    except (OperationRefused, InvalidInput):
        if is_new and not folder.kubeconfig.exists():
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def stop_running_fleet(folder: FleetDirectory, patience: timedelta) -> int:
    """Stop the process that runs a fleet and wait for it; return its id, 0 when none runs."""
    try:
        descriptor = os.open(folder.path / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    except OSError as cause:
        raise InvalidInput(f"{folder.path} cannot be used: {(cause.strerror or 'unknown').lower()}") from cause
    try:
        if _try_lock(descriptor):
            return 0
        holder = _holder(descriptor)
        if not holder:
            raise NotReady("the fleet is just starting: run the command again in a moment")
        with suppress(ProcessLookupError):
            os.kill(holder, signal.SIGTERM)
        ends = time.monotonic() + patience.total_seconds()
        while not _try_lock(descriptor):
            if time.monotonic() > ends:
                raise NotReady(
                    f"process {holder} has not stopped: look at {folder.log}, or end it with kill -9 {holder}"
                )
            time.sleep(POLL_INTERVAL)
        return holder
    finally:
        os.close(descriptor)


def remove_fleet(folder: FleetDirectory) -> bool:
    """Remove a fleet's data; False when there is none. Raise `OperationRefused` when it runs or is foreign."""
    if not folder.path.exists():
        return False
    with folder.lock():
        shutil.rmtree(folder.path)
    return True


@contextmanager
def temporary_fleet_directory() -> Iterator[FleetDirectory]:
    """Make a directory for one run; those of runs that were killed are removed as well."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{EPHEMERAL_PREFIX}*"):
        with suppress(AdminError, StoreOpenError, OSError):  # another run's, or half gone: not ours to touch
            if _is_own_folder(leftover) and FleetDirectory(leftover).recorded() is not None:
                remove_fleet(FleetDirectory(leftover))
    path = Path(tempfile.mkdtemp(prefix=EPHEMERAL_PREFIX))
    try:
        yield FleetDirectory(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.isdigit() else 0


def _is_partial_layout(entry: Path) -> bool:
    return entry.name.startswith(f".{LAYOUT_FILE}.")
