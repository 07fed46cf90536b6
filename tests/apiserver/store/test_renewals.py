"""Renewals of leases share transactions; they are as durable as every other write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from watchword.apiserver.store.model import Record, StoreChange
from watchword.apiserver.store.sqlite import RENEWAL_BUCKET, SqliteStore

pytestmark = pytest.mark.real_time

LONG = 3600.0
"""A pause that no test waits for."""
WAL_HEADER, FRAME_HEADER, PAGE = 32, 24, 4096


def renewal(path: str, expected: int, body: bytes = b"2") -> StoreChange:
    return StoreChange(RENEWAL_BUCKET, path, expected, lambda _: body)


async def with_leases(path: Path, count: int, pause: float) -> tuple[SqliteStore, list[Record]]:
    store = SqliteStore(path, renewal_pause=pause)
    leases = [await store.write(renewal(f"c{number}/lease", 0, b"1")) for number in range(count)]
    return store, leases


async def begun(store: SqliteStore, changes: list[StoreChange]) -> list[asyncio.Task[Record]]:
    tasks = [asyncio.create_task(store.write(change)) for change in changes]
    await asyncio.sleep(0)  # each is queued now
    return tasks


def transactions(database: Path) -> int:
    """Count the frames of the write-ahead log that end a transaction."""
    log = database.with_name(f"{database.name}-wal").read_bytes()
    frames = range(WAL_HEADER, len(log), FRAME_HEADER + PAGE)
    return sum(1 for at in frames if any(log[at + 4 : at + 8]))


async def test_renewals_commit_in_one_transaction(tmp_path: Path) -> None:
    store, leases = await with_leases(tmp_path / "data.db", 20, LONG)
    before = transactions(tmp_path / "data.db")

    renewed = await begun(store, [renewal(lease.path, lease.revision) for lease in leases])
    await store.flush()

    assert transactions(tmp_path / "data.db") == before + 1
    assert [store.get(RENEWAL_BUCKET, lease.path) for lease in leases] == [await task for task in renewed]
    await store.close()


async def test_renewal_commits_with_the_next_other_write(tmp_path: Path) -> None:
    store, (lease,) = await with_leases(tmp_path / "data.db", 1, LONG)
    (renewed,) = await begun(store, [renewal(lease.path, lease.revision)])

    other = await store.write(StoreChange("things", "ns/a", 0, lambda _: b"{}"))

    assert (await renewed).revision == other.revision - 1
    assert store.get(RENEWAL_BUCKET, lease.path) == await renewed
    await store.close()


async def test_renewal_commits_after_the_pause_when_nothing_else_is_written(tmp_path: Path) -> None:
    store, (lease,) = await with_leases(tmp_path / "data.db", 1, 0.01)

    renewed = await store.write(renewal(lease.path, lease.revision))

    assert store.get(RENEWAL_BUCKET, lease.path) == renewed
    await store.close()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(StoreChange(RENEWAL_BUCKET, "c1/lease", 0, lambda _: b"1"), id="a new lease"),
        pytest.param(StoreChange(RENEWAL_BUCKET, "c0/lease", 1, lambda _: b"1", deleted=True), id="the end of a lease"),
    ],
)
async def test_other_writes_of_leases_commit_at_once(tmp_path: Path, change: StoreChange) -> None:
    store, _ = await with_leases(tmp_path / "data.db", 1, LONG)

    assert (await store.write(change)).revision == 2
    await store.close()


async def test_renewals_that_wait_are_stored_when_the_store_closes(tmp_path: Path) -> None:
    store, leases = await with_leases(tmp_path / "data.db", 3, LONG)
    renewed = await begun(store, [renewal(lease.path, lease.revision) for lease in leases])
    await store.close()

    store = SqliteStore(tmp_path / "data.db")

    assert store.records(RENEWAL_BUCKET) == [await task for task in renewed]
    await store.close()


async def test_copy_of_the_data_holds_renewals_that_waited(tmp_path: Path) -> None:
    store, (lease,) = await with_leases(tmp_path / "data.db", 1, LONG)
    (renewed,) = await begun(store, [renewal(lease.path, lease.revision)])

    (tmp_path / "copy.db").write_bytes(await store.copy())

    assert (await renewed).revision == 2
    await store.close()
    copied = SqliteStore(tmp_path / "copy.db")
    assert copied.get(RENEWAL_BUCKET, lease.path) == await renewed
    await copied.close()
