"""Backup and restore of a data directory, by the command line, with real control planes on sockets."""

from __future__ import annotations

import asyncio
import base64
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.helpers.events import is_told

from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.apiserver.store.log import FileLock
from watchword.cli.main import run
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.kube.errors import Forbidden
from watchword.kube.kubeconfig_files import read_kubeconfig
from watchword.testing.builders import a_secret

pytestmark = [pytest.mark.real_time]

Output = pytest.CaptureFixture[str]
KILL_AT_STEP = Path(__file__).with_name("kill_at_step.py")
KEPT, DELETED, LATER = (ObjectKey("default", name) for name in ("kept", "deleted", "later"))


@asynccontextmanager
async def running(
    folder: Path, *, port: int = 0, key: Path | None = None, in_memory: bool = False
) -> AsyncIterator[tuple[Client, Instance]]:
    settings = InstanceSettings(folder, port=port, encryption_key_file=key, in_memory=in_memory)
    instance = Instance(settings, lambda: datetime.now(UTC))
    await instance.start()
    client = connect(instance.kubeconfig)
    try:
        yield client, instance
    finally:
        await client.close()
        await instance.stop()


def config(key: ObjectKey, **data: str) -> dict[str, object]:
    return CONFIG_MAPS.manifest(key, data=data)


async def watchword(*argv: str | Path, code: int = 0) -> None:
    told = await asyncio.to_thread(run, [str(word) for word in argv])
    assert told == code


async def first_event(client: Client, revision: int) -> Any:
    """Watch from a revision, and return what the server sends first."""
    query = {"watch": "1", "resourceVersion": str(revision)}
    async with client.open(CONFIG_MAPS.path(), query=query) as response:
        assert response.stream is not None
        return orjson.loads(await anext(aiter(response.stream)))


def folders(parent: Path, pattern: str) -> list[Path]:
    return sorted(parent.glob(pattern))


def a_key(folder: Path, byte: int = 7) -> Path:
    path = folder / f"key-{byte}"
    path.write_bytes(base64.b64encode(bytes([byte]) * 32))
    path.chmod(0o600)
    return path


async def a_backup(folder: Path, *flags: str | Path) -> Path:
    """Save a control plane that holds two objects, while it is running."""
    async with running(folder / "data") as (client, _):
        await client.create(CONFIG_MAPS, config(KEPT, number="1"))
        await client.create(CONFIG_MAPS, config(DELETED))
        await watchword("backup", folder / "backup", "--data-dir", folder / "data", *flags)
    return folder / "backup"


async def test_backup_of_a_running_control_plane_is_restored_in_a_new_directory(tmp_path: Path) -> None:
    backup = await a_backup(tmp_path)

    await watchword("restore", backup, "--data-dir", tmp_path / "new", "--undo-revocations")

    async with running(tmp_path / "new") as (client, _):
        assert (await client.get(CONFIG_MAPS, KEPT))["data"] == {"number": "1"}
        await is_told(client, "default", "DataRestored")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (backup, tmp_path / "new")}
    assert modes == {"backup": 0o600, "new": 0o700}


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["backup", "again", "--data-dir", "killed"], id="backup"),
        pytest.param(["restore", "backup", "--data-dir", "killed", "--replace", "--dry-run"], id="restore, dry run"),
    ],
)
async def test_data_of_a_killed_control_plane_is_read_without_a_change(tmp_path: Path, argv: list[str]) -> None:
    await a_backup(tmp_path)
    async with running(tmp_path / "data") as (client, _):
        await client.create(CONFIG_MAPS, config(LATER))
        shutil.copytree(tmp_path / "data", tmp_path / "killed", copy_function=shutil.copy2)
    names = ("state.db", "state.db-wal")
    before = [(tmp_path / "killed" / name).read_bytes() for name in names]

    verb, file, flag, folder, *rest = argv
    await watchword(verb, tmp_path / file, flag, tmp_path / folder, *rest)

    assert [(tmp_path / "killed" / name).read_bytes() for name in names] == before
    async with running(tmp_path / "killed") as (client, _):
        assert await client.find(CONFIG_MAPS, LATER) is not None


async def test_backup_of_a_stopped_control_plane_holds_the_same(tmp_path: Path) -> None:
    await a_backup(tmp_path)
    await watchword("backup", tmp_path / "again", "--data-dir", tmp_path / "data")
    await watchword("restore", tmp_path / "again", "--data-dir", tmp_path / "new", "--undo-revocations")

    async with running(tmp_path / "new") as (client, _):
        assert await client.find(CONFIG_MAPS, KEPT) is not None


async def test_credentials_from_before_work_after_a_restore(tmp_path: Path) -> None:
    backup = await a_backup(tmp_path)
    old = connect(tmp_path / "data" / "admin.kubeconfig")
    await watchword("restore", backup, "--data-dir", tmp_path / "new", "--undo-revocations")
    server = read_kubeconfig(tmp_path / "data" / "admin.kubeconfig").choose().cluster.server
    port = int(server.rpartition(":")[2])

    async with running(tmp_path / "new", port=port):
        assert await old.find(CONFIG_MAPS, KEPT) is not None
    await old.close()


async def test_watch_from_a_revision_before_the_restore_has_to_list_again(tmp_path: Path) -> None:
    backup = await a_backup(tmp_path)
    async with running(tmp_path / "data") as (client, _):
        seen = int((await client.create(CONFIG_MAPS, config(LATER)))["metadata"]["resourceVersion"])

    await watchword("restore", backup, "--data-dir", tmp_path / "data", "--replace", "--yes")

    async with running(tmp_path / "data") as (client, _):
        for revision in (1, seen):
            event = await first_event(client, revision)
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert int((await client.create(CONFIG_MAPS, config(LATER)))["metadata"]["resourceVersion"]) > seen


async def test_objects_that_a_restore_brings_back_or_loses_are_named(tmp_path: Path, capsys: Output) -> None:
    backup = await a_backup(tmp_path)
    async with running(tmp_path / "data") as (client, _):
        await client.delete(CONFIG_MAPS, DELETED)
        await client.create(CONFIG_MAPS, config(LATER))
        await client.patch(CONFIG_MAPS, KEPT, {"data": {"number": "2"}})
    capsys.readouterr()

    await watchword("restore", backup, "--data-dir", tmp_path / "data", "--replace", "--dry-run")

    shown = " ".join(capsys.readouterr().out.split())
    assert "deleted since the backup, exist again: configmaps/default/deleted" in shown
    assert "created since the backup, are gone: configmaps/default/later" in shown
    assert "changed since the backup, are as before: configmaps/default/kept" in shown


async def test_data_that_is_replaced_is_moved_aside(tmp_path: Path) -> None:
    backup = await a_backup(tmp_path)
    async with running(tmp_path / "data") as (client, _):
        await client.create(CONFIG_MAPS, config(LATER))

    await watchword("restore", backup, "--data-dir", tmp_path / "data", "--replace", "--yes")

    (aside,) = folders(tmp_path, "data.replaced-*")
    async with running(aside) as (client, _):
        assert await client.find(CONFIG_MAPS, LATER) is not None


@pytest.mark.parametrize("way", ["--key-file", "--passphrase-file"])
async def test_encrypted_backup_shows_nothing_and_opens_with_its_key_alone(
    tmp_path: Path, way: str, capsys: Output
) -> None:
    backup = await a_backup(tmp_path, way, a_key(tmp_path))
    content = backup.read_bytes()
    token = (tmp_path / "data" / "pki" / "admin.token").read_bytes()

    await watchword("restore", backup, "--data-dir", tmp_path / "new", "--undo-revocations", code=2)
    await watchword(
        "restore", backup, "--data-dir", tmp_path / "new", "--undo-revocations", way, a_key(tmp_path, 8), code=2
    )
    assert "was encrypted with another key or passphrase" in capsys.readouterr().err
    await watchword("restore", backup, "--data-dir", tmp_path / "new", "--undo-revocations", way, a_key(tmp_path))

    assert token not in content
    assert (tmp_path / "new" / "pki" / "admin.token").read_bytes() == token


async def test_secrets_that_are_encrypted_at_rest_stay_encrypted_in_a_backup(tmp_path: Path) -> None:
    key = a_key(tmp_path)
    async with running(tmp_path / "data", key=key) as (client, _):
        await client.create(SECRETS, a_secret("mine", namespace="default", data={"password": "plain-canary-text"}))
        await watchword("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")
    await watchword("restore", tmp_path / "backup", "--data-dir", tmp_path / "new", "--undo-revocations")

    assert base64.b64encode(b"plain-canary-text") not in (tmp_path / "new" / "state.db").read_bytes()
    async with running(tmp_path / "new", key=key) as (client, _):
        assert await client.find(SECRETS, ObjectKey("default", "mine")) is not None


async def test_user_without_the_right_gets_no_backup(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as (client, _):
        with pytest.raises(Forbidden):
            await client.impersonating("jane", groups=("system:authenticated",)).read("/watchword/backup")


async def test_process_of_a_release_without_backups_has_to_be_stopped_first(tmp_path: Path, capsys: Output) -> None:
    await a_backup(tmp_path)
    lock = FileLock(tmp_path / "data" / "state.db.lock")
    async with running(tmp_path / "earlier", in_memory=True) as (
        _,
        earlier,
    ):  # it has no such path either
        (tmp_path / "data" / "admin.kubeconfig").write_bytes(earlier.kubeconfig.read_bytes())
        await watchword("backup", tmp_path / "again", "--data-dir", tmp_path / "data", code=2)
    lock.release()

    assert "is of a release without backups: stop it" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("damage", "code", "sentence"),
    [
        pytest.param(lambda data: data[:-10], 2, "is damaged or incomplete", id="truncated"),
        pytest.param(lambda data: data[:-10] + bytes(10), 2, "is damaged or incomplete", id="changed"),
        pytest.param(
            lambda data: data.replace(b'"format":1', b'"format":9', 1), 4, "is a backup of format 9", id="newer"
        ),
        pytest.param(
            lambda data: data.replace(b'"format":1', b'"format":-1', 1), 2, "is not a backup", id="impossible format"
        ),
        pytest.param(lambda data: b"hello", 2, "is not a backup", id="another file"),
        pytest.param(lambda data: b"", 2, "is not a backup", id="empty"),
    ],
)
async def test_file_that_cannot_be_restored_is_refused(
    tmp_path: Path, capsys: Output, damage: Callable[[bytes], bytes], code: int, sentence: str
) -> None:
    backup = await a_backup(tmp_path)
    backup.write_bytes(damage(backup.read_bytes()))

    await watchword("restore", backup, "--data-dir", tmp_path / "new", "--undo-revocations", code=code)

    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


async def test_directory_with_data_is_not_replaced_unasked(tmp_path: Path, capsys: Output) -> None:
    backup = await a_backup(tmp_path)

    await watchword("restore", backup, "--data-dir", tmp_path / "data", code=4)
    assert "holds data: choose another --data-dir, or give --replace" in " ".join(capsys.readouterr().err.split())
    await watchword("restore", backup, "--data-dir", tmp_path / "data", "--replace", code=2)
    assert "give --yes" in capsys.readouterr().err


async def test_control_plane_that_runs_is_not_replaced(tmp_path: Path, capsys: Output) -> None:
    backup = await a_backup(tmp_path)
    async with running(tmp_path / "data"):
        await watchword("restore", backup, "--data-dir", tmp_path / "data", "--replace", "--yes", code=4)

    assert "stop it first" in " ".join(capsys.readouterr().err.split())


async def test_folder_of_another_program_is_never_replaced(tmp_path: Path, capsys: Output) -> None:
    backup = await a_backup(tmp_path)
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "letter").write_text("mine")

    await watchword("restore", backup, "--data-dir", tmp_path / "home", "--replace", "--yes", code=4)

    assert "is not a data directory (it holds letter)" in " ".join(capsys.readouterr().err.split())


def killed(step: int, folder: Path, *argv: str | Path) -> bool:
    """Run a command that is killed at a step; return whether it came that far."""
    command = [sys.executable, str(KILL_AT_STEP), str(step), str(folder), *map(str, argv)]
    code = subprocess.run(command, check=False, capture_output=True).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.slow
async def test_restore_killed_at_any_step_leaves_old_or_new_data_and_can_be_repeated(tmp_path: Path) -> None:
    backup = await a_backup(tmp_path)
    flags = ("restore", backup, "--data-dir", tmp_path / "data", "--replace", "--yes")
    step = 1
    while killed(step, tmp_path / "data", *flags):
        places = [tmp_path / "data", *folders(tmp_path, "data.replaced-*")]
        assert any((place / "state.db").exists() for place in places)
        step += 1

    assert step > 3
    async with running(tmp_path / "data") as (client, _):
        assert await client.find(CONFIG_MAPS, KEPT) is not None


@pytest.mark.slow
async def test_backup_killed_at_any_step_leaves_no_partial_file_and_the_data_usable(tmp_path: Path) -> None:
    before = (await a_backup(tmp_path)).read_bytes()
    step = 1
    while killed(step, tmp_path, "backup", tmp_path / "backup", "--data-dir", tmp_path / "data"):
        assert (tmp_path / "backup").read_bytes() == before
        step += 1

    assert step > 1
    async with running(tmp_path / "data") as (client, _):
        assert await client.find(CONFIG_MAPS, KEPT) is not None
