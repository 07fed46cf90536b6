"""Copies a data directory as of one revision for each control plane, whether it is running or not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from watchword.admin.backup_archive import Backup, BackupContent, BackupHeader, Subject
from watchword.admin.errors import InvalidInput
from watchword.apiserver.serving.backup import BACKUP_PATH
from watchword.apiserver.store.errors import StoreLocked
from watchword.apiserver.store.lock import FileLock
from watchword.apiserver.store.log import RevisionLog
from watchword.apiserver.store.snapshot import SnapshotSummary, read_snapshot
from watchword.kube.connect import connect
from watchword.kube.errors import NotFound
from watchword.local.cloud import read_cloud_files
from watchword.local.data_directory import LAYOUT_FILE, FleetDirectory

DATA_FILE, KEYS = "state.db", "pki"


class PlaneDirectory(Struct, frozen=True):
    """The data of one control plane; `name` is its place in the data directory, empty when it is the whole of it."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.root / self.name

    @property
    def prefix(self) -> str:
        """What the names of its files in a backup begin with."""
        return f"{self.name}/" if self.name else ""


def find_planes(root: Path) -> tuple[PlaneDirectory, ...]:
    """Return the control planes that have data in a data directory of `apiserver` or `up`."""
    layout = FleetDirectory(root).recorded()
    names = [""] if layout is None else [address.name for address in layout.addresses]
    return tuple(PlaneDirectory(root, name) for name in names if (root / name / DATA_FILE).exists())


async def back_up_directory(root: Path, now: datetime) -> Backup:
    """Return the backup of a data directory; `InvalidInput` when it holds no control plane."""
    planes = find_planes(root)
    if not planes:
        raise InvalidInput(f"{root} holds no data of a control plane: name the right folder with --data-dir")
    files: dict[str, bytes] = {}
    contents: list[BackupContent] = []
    for plane in planes:
        data = await copy_plane(plane)
        summary = read_snapshot(data, f"the copy of {plane.path / DATA_FILE}")
        contents.append(BackupContent(plane.name or "apiserver", len(summary.objects), summary.revision))
        files |= {f"{plane.prefix}{DATA_FILE}": data, **_key_files(plane)}
    if (root / LAYOUT_FILE).exists():
        files[LAYOUT_FILE] = (root / LAYOUT_FILE).read_bytes()
        files |= read_cloud_files(root)
    return Backup(BackupHeader(Subject.DATA_DIRECTORY, now, tuple(contents)), files)


async def copy_plane(plane: PlaneDirectory) -> bytes:
    """Return the data file of one control plane, from the process that runs it or, when none does, from disk."""
    try:
        lock = FileLock(plane.path / f"{DATA_FILE}.lock")
    except StoreLocked:
        return await _copy_running(plane)
    try:
        return copy_stopped(plane)
    finally:
        lock.release()


def copy_stopped(plane: PlaneDirectory) -> bytes:
    """Return the data file of a control plane whose lock the caller holds."""
    log = RevisionLog(plane.path / DATA_FILE)
    try:
        return log.copy()
    finally:
        log.close()


def summarize_stopped(plane: PlaneDirectory) -> SnapshotSummary:
    """Return what a control plane holds whose lock the caller holds."""
    return read_snapshot(copy_stopped(plane), str(plane.path / DATA_FILE))


async def _copy_running(plane: PlaneDirectory) -> bytes:
    kubeconfig = plane.path / "admin.kubeconfig"
    if not kubeconfig.exists():
        raise InvalidInput(f"the process that uses {plane.path} is just starting: run the command again in a moment")
    client = connect(kubeconfig)
    try:
        return await client.read(BACKUP_PATH)
    except NotFound as cause:
        raise InvalidInput(
            f"the process that uses {plane.path} is of a release without backups: stop it, and run the command again"
        ) from cause
    finally:
        await client.close()


def _key_files(plane: PlaneDirectory) -> Mapping[str, bytes]:
    folder = plane.path / KEYS
    files = (file for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith("."))
    return {f"{plane.prefix}{KEYS}/{file.name}": file.read_bytes() for file in files}
