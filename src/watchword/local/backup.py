"""Copies a data directory as of one revision, and puts it back from a backup."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from uuid import uuid4

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.admin.backup_archive import Backup, BackupContent, BackupHeader, Subject
from watchword.admin.errors import InvalidInput, OperationRefused
from watchword.admin.hub_restore import intersect_grants, restore_cluster
from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.bootstrap import TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_PREFIX
from watchword.api.meta import Object, is_deleting, uid_of
from watchword.api.pull_secrets import SERVICE_ACCOUNT_TOKEN_TYPE
from watchword.api.sensitive import HiddenFields
from watchword.apiserver.instance import BACKUP_PATH, require_private_directory
from watchword.apiserver.store import snapshot
from watchword.apiserver.store.encryption import RowCipher
from watchword.apiserver.store.log import FileLock, RevisionLog
from watchword.apiserver.store.model import StoreLocked, StoreOpenError
from watchword.apiserver.store.snapshot import Row, SnapshotSummary
from watchword.kube.connect import connect
from watchword.kube.errors import NotFound
from watchword.local.cloud import read_cloud_files
from watchword.local.data_directory import LAYOUT_FILE, LOCK, FleetDirectory

BOOTSTRAP_TOKENS = f"{TOKEN_SECRET_NAMESPACE}/{TOKEN_SECRET_PREFIX}"


class Correction(HiddenFields, frozen=True):
    """One object that is not restored as the backup has it; `obj` None: it stays deleted."""

    hidden = ("obj",)  # of a Secret, decrypted

    saved: Row
    obj: Object | None

    @property
    def key(self) -> str:
        return f"{self.saved.bucket}/{self.saved.path}"

    def row(self, revision: int) -> Row:
        obj = self.obj if self.obj is not None else orjson.loads(self.saved.body)
        obj["metadata"]["resourceVersion"] = str(revision)
        return replace(self.saved, revision=revision, deleted=self.obj is None, body=orjson.dumps(obj))


Rule = Callable[[Object, Object | None], Object | None]
"""Takes an object of the backup and the same one of today, None when it was deleted; returns what is restored."""


def stay_deleted(saved: Object, present: Object | None) -> Object | None:
    return saved if present is not None else None


def invalidate(saved: Object, present: Object | None) -> Object | None:
    """Tokens are bound to the UID of what was deleted: under another one they stay refused."""
    if present is not None:
        return saved
    return {**saved, "metadata": {**saved["metadata"], "uid": str(uuid4())}}


def restore_secret(saved: Object, present: Object | None) -> Object | None:
    path = f"{saved['metadata']['namespace']}/{saved['metadata']['name']}"
    is_token = path.startswith(BOOTSTRAP_TOKENS) or saved.get("type") == SERVICE_ACCOUNT_TOKEN_TYPE
    return present if is_token else invalidate(saved, present)


def intersect_subjects(saved: Object, present: Object | None) -> Object | None:
    return _intersect(saved, present, "subjects")


def intersect_rules(saved: Object, present: Object | None) -> Object | None:
    if present is None or saved.get("aggregationRule") != present.get("aggregationRule"):
        return present
    return saved if saved.get("aggregationRule") else _intersect(saved, present, "rules")


def _intersect(saved: Object, present: Object | None, field: str) -> Object | None:
    if present is None:
        return None
    granted = present.get(field) or []
    return {**saved, field: [each for each in saved.get(field) or [] if each in granted]}


RULES: Mapping[str, Rule] = {
    resources.MANAGED_CLUSTERS.group_resource: restore_cluster,
    **{kind.group_resource: stay_deleted for kind in (*ACCOUNT_KINDS, resources.MANAGED_CLUSTER_ADDONS)},
    resources.CONFIG_MAPS.group_resource: intersect_grants,
    resources.CERTIFICATE_SIGNING_REQUESTS.group_resource: lambda _, present: present,
    resources.SERVICE_ACCOUNTS.group_resource: invalidate,
    resources.SECRETS.group_resource: restore_secret,
    resources.PODS.group_resource: invalidate,
    resources.NODES.group_resource: invalidate,
    resources.ROLE_BINDINGS.group_resource: intersect_subjects,
    resources.CLUSTER_ROLE_BINDINGS.group_resource: intersect_subjects,
    resources.ROLES.group_resource: intersect_rules,
    resources.CLUSTER_ROLES.group_resource: intersect_rules,
}


def decide_corrections(saved: SnapshotSummary, present: SnapshotSummary, cipher: RowCipher) -> list[Correction]:
    """Return what is restored otherwise than saved; `StoreOpenError` when a Secret cannot be decrypted."""
    found: list[Correction] = []
    for key, row in saved.rows.items():
        rule, other = RULES.get(row.bucket), present.rows.get(key)
        if rule is None or (other is not None and other.body == row.body):
            continue
        decrypted = cipher.decrypt(row)
        before = orjson.loads(decrypted.body)
        today = orjson.loads(cipher.decrypt(other).body) if other is not None else None
        if today is not None and (uid_of(today) != uid_of(before) or (is_deleting(today) and not is_deleting(before))):
            today = None  # deleted, and another one was made or its finalizers run
        restored = rule(before, today)
        if restored != before:
            found.append(Correction(decrypted, restored))
    return found


DATA_FILE, KEYS = "state.db", "pki"
FASTEST_WRITES = 10_000
"""Revisions per second: more than a control plane can write, so that no client has seen what follows a restore."""
SHORT_LIVED = ("events/", "events.events.k8s.io/", "leases.coordination.k8s.io/")


class PlaneDirectory(Struct, frozen=True):
    """The data of one control plane; `name` is its place in the data directory, empty when it is the whole of it."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def prefix(self) -> str:
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
        summary = snapshot.read_snapshot(data, f"the copy of {plane.path / DATA_FILE}")
        contents.append(BackupContent(plane.name or "apiserver", len(summary.rows), summary.revision))
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
    log = RevisionLog(plane.path / DATA_FILE)
    try:
        return log.copy()
    finally:
        log.abandon()  # of a server that was killed the next start shall know it


async def _copy_running(plane: PlaneDirectory) -> bytes:
    kubeconfig = plane.path / "admin.kubeconfig"
    if not kubeconfig.exists():
        raise InvalidInput(f"the process that uses {plane.path} is just starting: run the command again in a moment")
    try:
        async with connect(kubeconfig) as client:
            return await client.read(BACKUP_PATH)
    except NotFound as cause:
        raise InvalidInput(
            f"the process that uses {plane.path} is of a release without backups: stop it, and run the command again"
        ) from cause


def _key_files(plane: PlaneDirectory) -> Mapping[str, bytes]:
    folder = plane.path / KEYS
    files = (file for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith("."))
    return {f"{plane.prefix}{KEYS}/{file.name}": file.read_bytes() for file in files}


class Differences(Struct, frozen=True):
    """What a restore changes in data that is there; short-lived kinds (events, leases) are left out."""

    returning: tuple[str, ...] = ()  # deleted since the backup: they exist again
    lost: tuple[str, ...] = ()  # made since the backup: they are gone
    undone: tuple[str, ...] = ()  # changed since the backup: they are as before
    kept: tuple[str, ...] = ()  # denied or revoked since the backup: they stay so


class Restore(HiddenFields, frozen=True):
    """A checked restore that has not started."""

    hidden = ("files",)

    target: Path
    files: Mapping[str, bytes]
    revisions: Mapping[str, int]  # data file → the revision that clients may have seen at most
    differences: Differences


@contextmanager
def prepare_restore(
    target: Path, backup: Backup, *, replace: bool, undo_revocations: bool, cipher: RowCipher, now: datetime
) -> Iterator[Restore]:
    """Check everything and hold the locks of the data that is there; raise before anything is changed.

    What was denied or revoked since the backup stays so. `OperationRefused` when the data that would show it is not
    there or cannot be read, unless `undo_revocations`.
    """
    if backup.header.subject is not Subject.DATA_DIRECTORY:
        raise InvalidInput("this is the backup of a hub: restore it with `watchword restore FILE --hub`")
    _require_usable(target, replace=replace)
    with ExitStack() as locks:
        saved = {
            name: snapshot.read_snapshot(data, name)
            for name, data in backup.files.items()
            if PurePosixPath(name).name == DATA_FILE
        }
        if not saved:
            raise InvalidInput("the backup holds no data file: use another backup")
        present, unreadable = _lock_and_read(target, locks) if target.exists() else ({}, "")
        missing = unreadable or next((f"{target / name} is not there" for name in saved if name not in present), "")
        if missing and not undo_revocations:
            raise OperationRefused(
                f"{missing}: nothing shows what was denied or revoked since {backup.header.created:%Y-%m-%d %H:%MZ}. "
                f"With --undo-revocations, clusters, accounts, rights and tokens of that time work again; deny and "
                f"delete them anew before the control plane can be reached"
            )
        corrected = (
            {} if undo_revocations else {name: decide_corrections(saved[name], present[name], cipher) for name in saved}
        )
        elapsed = max((now - backup.header.created).total_seconds(), 0)
        seen = {name: summary.revision for name, summary in present.items()}
        revisions = {
            name: max(summary.revision + int(elapsed * FASTEST_WRITES), seen.get(name, 0))
            for name, summary in saved.items()
        }
        files = {
            **backup.files,
            **{
                name: snapshot.extend_snapshot(
                    backup.files[name],
                    name,
                    [cipher.encrypt(each.row(number)) for number, each in enumerate(found, saved[name].revision + 1)],
                )
                for name, found in corrected.items()
                if found
            },
        }
        kept = {f"{name.removesuffix(DATA_FILE)}{each.key}" for name, found in corrected.items() for each in found}
        yield Restore(target, files, revisions, compare(saved, present, kept))


def carry_out(restore: Restore, now: datetime) -> Path | None:
    """Put the data directory in place; return where the earlier one was moved, None when there was none.

    A crash leaves the earlier directory, or the restored one, or neither and both beside it under other names.
    """
    target = restore.target
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name(f".{target.name}.restoring")
    shutil.rmtree(staging, ignore_errors=True)  # left by a restore that was killed
    _write_files(staging, restore)
    aside: Path | None = None
    if target.exists() and any(target.iterdir()):
        aside = target.with_name(f"{target.name}.replaced-{now:%Y%m%dT%H%M%S.%fZ}")
        target.rename(aside)
    staging.rename(target)
    _sync(target.parent)
    return aside


def compare(
    saved: Mapping[str, snapshot.SnapshotSummary], present: Mapping[str, snapshot.SnapshotSummary], kept: set[str]
) -> Differences:
    returning, lost, undone = set[str](), set[str](), set[str]()
    for name in present.keys() & saved.keys():
        before, today = (
            {key: row.revision for key, row in summary.rows.items() if not key.startswith(SHORT_LIVED)}
            for summary in (saved[name], present[name])
        )
        place = name.removesuffix(DATA_FILE)
        returning |= {f"{place}{key}" for key in before.keys() - today.keys()}
        lost |= {f"{place}{key}" for key in today.keys() - before.keys()}
        undone |= {f"{place}{key}" for key in before.keys() & today.keys() if before[key] != today[key]}
    return Differences(*(tuple(sorted(names)) for names in (returning - kept, lost, undone - kept, kept)))


def _require_usable(target: Path, *, replace: bool) -> None:
    if not target.exists():
        return
    require_private_directory(target)
    others = sorted(entry.name for entry in target.iterdir() if entry.name != LOCK)
    if not others:
        return
    if not find_planes(target) and LAYOUT_FILE not in others:
        raise OperationRefused(f"{target} is not a data directory (it holds {others[0]}): choose another --data-dir")
    if not replace:
        raise OperationRefused(
            f"{target} holds data: choose another --data-dir, or give --replace, which moves that data aside"
        )


def _lock_and_read(target: Path, locks: ExitStack) -> tuple[dict[str, snapshot.SnapshotSummary], str]:
    """Return what each control plane holds, and why one of them cannot be read."""
    if (target / LAYOUT_FILE).exists():
        locks.enter_context(FleetDirectory(target).lock())
    found: dict[str, snapshot.SnapshotSummary] = {}
    unreadable = ""
    for plane in find_planes(target):
        try:
            lock = FileLock(plane.path / f"{DATA_FILE}.lock")
        except StoreLocked as cause:
            raise OperationRefused(f"a control plane runs in {plane.path}: stop it first") from cause
        locks.callback(lock.release)
        try:
            found[f"{plane.prefix}{DATA_FILE}"] = snapshot.read_snapshot(
                copy_stopped(plane), str(plane.path / DATA_FILE)
            )
        except StoreOpenError as cause:
            unreadable = str(cause)
    return found, unreadable


def _write_files(staging: Path, restore: Restore) -> None:
    folders = sorted({parent for name in restore.files for parent in PurePosixPath(name).parents})
    for folder in folders:  # one by one: a mode is for the last folder of a path alone
        staging.joinpath(folder).mkdir(mode=0o700)
    for name, data in restore.files.items():
        path = staging.joinpath(*PurePosixPath(name).parts)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    for name, revision in restore.revisions.items():
        path = staging.joinpath(*PurePosixPath(name).parts)
        # The marker names no file: the store then knows that its file was restored, and continues above the revision.
        snapshot.write_marker(path.with_name(f"{DATA_FILE}.mark"), snapshot.RestoreMarker(0, 0, revision))
    for folder in folders:
        _sync(staging / folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
