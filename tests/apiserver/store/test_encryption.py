"""Secrets on disk: encrypted where there is a key, and gone once they are deleted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from watchword.apiserver.store.encryption import read_encryption_keys
from watchword.apiserver.store.model import StoreChange, StoreOpenError
from watchword.apiserver.store.sqlite import SqliteStore
from watchword.pki.encryption import parse_encryption_keys

pytestmark = pytest.mark.real_time

CANARY = b"correct-horse-battery-staple"
BODY = b'{"data":{"password":"' + CANARY + b'"}}'
OLD, NEW = base64.b64encode(b"o" * 32), base64.b64encode(b"n" * 32)


def a_secret(path: str = "ns/a", expected: int = 0, *, bucket: str = "secrets", deleted: bool = False) -> StoreChange:
    return StoreChange(bucket, path, expected, lambda _: BODY, deleted=deleted)


def opened(folder: Path, *keys: bytes) -> SqliteStore:
    return SqliteStore(folder / "data.db", encryption=parse_encryption_keys(b"\n".join(keys)) if keys else None)


def bytes_on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("data.db*")))


async def test_encrypted_secret_is_nowhere_on_disk_and_reads_back(tmp_path: Path) -> None:
    store = opened(tmp_path, NEW)
    await store.write(a_secret())
    running = bytes_on_disk(tmp_path)
    await store.close()

    again = opened(tmp_path, NEW)
    found = again.get("secrets", "ns/a")
    await again.close()

    assert CANARY not in running + bytes_on_disk(tmp_path)
    assert found is not None
    assert found.body == BODY


async def test_secrets_from_before_are_encrypted_at_the_next_start(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.write(a_secret())
    await store.write(a_secret(expected=1))
    await store.close()
    assert CANARY in bytes_on_disk(tmp_path)

    store = opened(tmp_path, NEW)

    assert CANARY not in bytes_on_disk(tmp_path)
    assert [event.record.body for event in store.events_after("secrets", 0)] == [BODY, BODY]
    await store.close()


async def test_key_is_replaced_by_putting_another_one_first(tmp_path: Path) -> None:
    store = opened(tmp_path, OLD)
    await store.write(a_secret())
    await store.close()

    store = opened(tmp_path, NEW, OLD)
    await store.close()
    store = opened(tmp_path, NEW)

    assert store.get("secrets", "ns/a") is not None
    await store.close()


@pytest.mark.parametrize(
    ("keys", "told"),
    [pytest.param((), "--encryption-key-file", id="no key"), pytest.param((NEW,), "add the key", id="another key")],
)
async def test_encrypted_secrets_need_their_key(tmp_path: Path, keys: tuple[bytes, ...], told: str) -> None:
    store = opened(tmp_path, OLD)
    await store.write(a_secret())
    await store.close()

    with pytest.raises(StoreOpenError, match=told):
        opened(tmp_path, *keys)


async def test_encrypted_secret_cannot_be_put_in_the_place_of_another(tmp_path: Path) -> None:
    keys = parse_encryption_keys(NEW)
    sealed = keys.encrypt(BODY, b"secrets/ns/a")

    store = opened(tmp_path)
    await store.write(StoreChange("secrets", "ns/b", 0, lambda _: sealed))
    await store.close()

    with pytest.raises(StoreOpenError, match="belongs elsewhere"):
        opened(tmp_path, NEW)


async def test_other_objects_stay_readable_on_disk(tmp_path: Path) -> None:
    store = opened(tmp_path, NEW)
    await store.write(a_secret(bucket="configmaps"))

    assert CANARY in bytes_on_disk(tmp_path)
    await store.close()


async def test_deleted_secret_leaves_nothing_behind_after_compaction(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.write(a_secret())
    gone = await store.write(StoreChange("secrets", "ns/a", 1, lambda _: b"{}", deleted=True))

    await store.compact(gone.revision)

    assert CANARY not in bytes_on_disk(tmp_path)
    await store.close()


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        pytest.param(NEW, 0o644, "chmod 600", id="readable by others"),
        pytest.param(b"", 0o600, "holds no key", id="empty"),
        pytest.param(b"not base64!", 0o600, "not base64", id="not base64"),
        pytest.param(base64.b64encode(b"short"), 0o600, "has not 32 bytes", id="short"),
    ],
)
def test_unusable_key_file_says_what_to_do(tmp_path: Path, content: bytes, mode: int, told: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    file.chmod(mode)

    with pytest.raises(StoreOpenError, match=told) as caught:
        read_encryption_keys(file)

    assert content.decode() not in str(caught.value) or not content


def test_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError, match="key cannot be read: no such file"):
        read_encryption_keys(tmp_path / "key")
