"""Copies of a data file that is in use, and the versions of its format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from watchword.apiserver.store.log import RevisionLog
from watchword.apiserver.store.model import StoreChange, StoreOpenError, WriteFailed
from watchword.apiserver.store.snapshot import StoreFormat, read_snapshot
from watchword.apiserver.store.sqlite import SqliteStore

pytestmark = pytest.mark.real_time

B = "things.example.com"
WRITERS, WRITES = 5, 40
LATER = StoreFormat(3, {2: "CREATE TABLE added (name TEXT) STRICT;"})


def _body(number: int) -> Callable[[int], bytes]:
    return lambda _: str(number).encode()


async def write_many(store: SqliteStore, name: str) -> None:
    revision = 0
    for number in range(WRITES):
        revision = (await store.write(StoreChange(B, f"ns/{name}", revision, _body(number)))).revision


async def test_copy_holds_every_write_up_to_one_revision_while_others_write(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    writers = [asyncio.create_task(write_many(store, f"w{number}")) for number in range(WRITERS)]
    copies = [await store.copy() for _ in range(10)]
    await asyncio.gather(*writers)
    written = {event.revision: event.record for event in store.events_after(B, 0)}
    await store.close()

    for number, data in enumerate(copies):
        path = tmp_path / f"copy-{number}.db"
        path.write_bytes(data)
        log = RevisionLog(path)
        rows = {row.revision: (row.path, row.body) for row in log.rows()}
        log.close()
        assert sorted(rows) == list(range(1, len(rows) + 1))
        assert rows == {key: (written[key].path, written[key].body) for key in rows}


async def test_acknowledged_write_is_in_the_next_copy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    record = await store.write(StoreChange(B, "ns/a", 0, lambda _: b"{}"))
    found = read_snapshot(await store.copy(), "copy")
    await store.close()

    assert (found.version, found.revision, list(found.rows)) == (2, record.revision, [f"{B}/ns/a"])


async def test_deleted_object_is_not_among_the_objects_of_a_copy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    record = await store.write(StoreChange(B, "ns/a", 0, lambda _: b"{}"))
    await store.write(StoreChange(B, "ns/a", record.revision, lambda _: b"{}", deleted=True))
    found = read_snapshot(await store.copy(), "copy")
    await store.close()

    assert (found.revision, found.rows) == (2, {})


async def test_closed_store_refuses_to_be_copied(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    await store.close()

    with pytest.raises(WriteFailed, match="the server is stopping"):
        await store.copy()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"hello" * 1000, id="no database"),
        pytest.param(lambda data: data[:5000], id="truncated"),
    ],
)
async def test_data_that_is_no_data_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    store = SqliteStore(tmp_path / "data.db")
    data = await store.copy()
    await store.close()

    with pytest.raises(StoreOpenError):
        read_snapshot(damage(data), "backup.db")


async def test_file_of_an_earlier_format_is_migrated_with_its_objects(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    await store.write(StoreChange(B, "ns/a", 0, lambda _: b"1"))
    await store.close()

    RevisionLog(tmp_path / "data.db", store_format=LATER).close()
    log = RevisionLog(tmp_path / "data.db", store_format=LATER)

    assert [(row.path, row.body) for row in log.rows()] == [("ns/a", b"1")]
    log.close()


async def test_migration_that_fails_leaves_the_earlier_format(tmp_path: Path) -> None:
    await SqliteStore(tmp_path / "data.db").close()
    broken = StoreFormat(4, {2: LATER.migrations[2], 3: "INSERT INTO missing VALUES (1);"})

    with pytest.raises(StoreOpenError, match="no such table"):
        RevisionLog(tmp_path / "data.db", store_format=broken)

    await SqliteStore(tmp_path / "data.db").close()


async def test_file_of_a_newer_format_is_refused_with_the_next_step(tmp_path: Path) -> None:
    await SqliteStore(tmp_path / "data.db").close()
    RevisionLog(tmp_path / "data.db", store_format=LATER).close()
    before = (tmp_path / "data.db").read_bytes()

    with pytest.raises(StoreOpenError, match=r"has format 3.*formats up to 2: use the release that wrote it"):
        SqliteStore(tmp_path / "data.db")
    assert (tmp_path / "data.db").read_bytes() == before


async def test_file_whose_format_has_no_migration_is_refused(tmp_path: Path) -> None:
    await SqliteStore(tmp_path / "data.db").close()

    with pytest.raises(StoreOpenError, match="has format 2, which this release cannot migrate"):
        RevisionLog(tmp_path / "data.db", store_format=StoreFormat(3))
