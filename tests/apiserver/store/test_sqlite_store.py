"""The durable store beyond the common contract: restarts, refusals, atomic writes."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from watchword.apiserver.store.model import (
    Compacted,
    Record,
    StorageFull,
    StoreChange,
    StoreCorrupt,
    StoreIncomplete,
    StoreLocked,
    StoreMissing,
    StoreOpenError,
    WriteFailed,
)
from watchword.apiserver.store.snapshot import RestoreMarker, read_snapshot, write_marker
from watchword.apiserver.store.sqlite import ERASED_TOGETHER, SqliteStore

pytestmark = pytest.mark.real_time

B = "things.example.com"


def put(path: str, body: bytes = b"{}", expected: int = 0) -> StoreChange:
    return StoreChange(B, path, expected, lambda _: body)


def erase(path: str, expected: int) -> StoreChange:
    return StoreChange(B, path, expected, lambda _: b"{}", deleted=True)


async def reopened(store: SqliteStore, path: Path) -> SqliteStore:
    await store.close()
    return SqliteStore(path)


async def test_state_past_and_revision_survive_a_restart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    a = await store.write(put("ns/a", b"1"))
    b = await store.write(put("ns/b"))
    await store.write(put("ns/a", b"2", a.revision))
    await store.write(erase("ns/b", b.revision))
    before = (store.revision, store.records(B), store.events_after(B, 1))

    store = await reopened(store, tmp_path / "data.db")

    assert (store.revision, store.records(B), store.events_after(B, 1)) == before
    await store.close()


async def test_the_count_goes_on_after_compaction_has_erased_the_last_revisions(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    a = await store.write(put("ns/a"))
    await store.write(erase("ns/a", a.revision))
    await store.compact(store.revision)

    store = await reopened(store, tmp_path / "data.db")
    again = await store.write(put("ns/a"))

    assert again.revision == 3
    with pytest.raises(Compacted):
        store.events_after(B, 1)
    await store.close()


async def test_compaction_keeps_the_present_across_a_restart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    record = await store.write(put("ns/a", b"0"))
    for number in range(1, 50):
        record = await store.write(put("ns/a", b"%d" % number, record.revision))
    await store.compact(40)
    after = store.events_after(B, 40)

    store = await reopened(store, tmp_path / "data.db")

    assert store.records(B) == [record]
    assert store.events_after(B, 40) == after
    with pytest.raises(Compacted):
        store.events_after(B, 39)
    await store.close()


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


async def test_the_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    await store.write(put("ns/a"))

    assert modes(tmp_path) == {0o600}
    await store.close()


async def test_a_second_store_on_the_same_file_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")

    with pytest.raises(StoreLocked, match="in use"):
        SqliteStore(tmp_path / "data.db")

    await store.write(put("ns/a"))
    await store.close()


@pytest.mark.parametrize(
    "content",
    [pytest.param(b"this is no database" * 400, id="not a database"), pytest.param(b"\0" * 8192, id="zeros")],
)
async def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "data.db"
    file.write_bytes(content)

    with pytest.raises(StoreOpenError):
        SqliteStore(file)

    assert file.read_bytes() == content


async def test_a_damaged_page_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "data.db"
    store = SqliteStore(file)
    for number in range(200):
        await store.write(put(f"ns/{number}", b"x" * 200))
    await store.close()
    content = bytearray(file.read_bytes())
    content[3 * 4096 : 4 * 4096] = b"\xa5" * 4096
    file.write_bytes(content)

    with pytest.raises(StoreCorrupt, match="damaged"):
        SqliteStore(file)

    assert file.read_bytes() == bytes(content)


async def test_a_full_disk_refuses_writes_while_reads_go_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db", max_bytes=256 * 1024)
    await store.write(put("ns/a", b"kept"))

    with pytest.raises(StorageFull):
        await store.write(put("ns/big", b"x" * 512 * 1024))

    small = await store.write(put("ns/b"))
    assert (small.revision, store.revision) == (2, 2)
    assert store.get(B, "ns/big") is None
    assert [record.path for record in store.records(B)] == ["ns/a", "ns/b"]
    await store.close()


async def test_what_was_built_on_a_failed_write_fails_with_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db", max_bytes=256 * 1024)
    doomed = asyncio.ensure_future(store.write(put("ns/a", b"x" * 512 * 1024)))
    await asyncio.sleep(0)
    pending = store.latest(B, "ns/a")
    assert pending is not None

    child = asyncio.ensure_future(store.write(put("ns/a", b"child", pending.revision)))
    outcomes = await asyncio.gather(doomed, child, return_exceptions=True)

    assert all(isinstance(outcome, StorageFull) for outcome in outcomes)
    assert store.latest(B, "ns/a") is None
    await store.close()


async def test_a_write_is_invisible_until_it_is_durable(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    writing = asyncio.ensure_future(store.write(put("ns/a")))
    await asyncio.sleep(0)

    unseen, under_way = store.get(B, "ns/a"), store.latest(B, "ns/a")

    assert unseen is None
    assert isinstance(under_way, Record)
    assert await writing == store.get(B, "ns/a")
    await store.close()


async def test_a_write_whose_caller_gave_up_is_still_committed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    writing = asyncio.ensure_future(store.write(put("ns/a")))
    await asyncio.sleep(0)
    writing.cancel()

    await store.flush()

    assert store.get(B, "ns/a") is not None
    await store.close()


async def written(path: Path, *names: str) -> int:
    """Write some objects and return the revision reached."""
    store = SqliteStore(path)
    for name in names:
        await store.write(put(f"ns/{name}"))
    await store.close()
    return store.revision


async def test_after_a_restore_no_old_revision_can_be_continued_from(tmp_path: Path) -> None:
    live, backup = tmp_path / "data.db", tmp_path / "backup.db"
    await written(live, "a")
    backup.write_bytes(live.read_bytes())
    lost = await written(live, "b", "c")
    live.write_bytes(backup.read_bytes())  # put back in place: the same inode

    store = SqliteStore(live)

    assert [record.path for record in store.records(B)] == ["ns/a"]
    assert store.revision > lost
    for bucket in (B, "never.written"):
        with pytest.raises(Compacted):
            store.events_after(bucket, lost)
    assert store.events_after(B, store.revision) == []
    await store.close()


async def test_a_file_from_elsewhere_begins_a_new_epoch_once(tmp_path: Path) -> None:
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    before = await written(here, "a")
    there.write_bytes(here.read_bytes())

    first = await written(there)
    second = await written(there)

    assert first > before
    assert second == first


async def test_compaction_erases_more_revisions_than_one_transaction_takes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    made = await asyncio.gather(*(store.write(put(f"ns/{number}")) for number in range(ERASED_TOGETHER)))
    await asyncio.gather(*(store.write(erase(record.path, record.revision)) for record in made))
    await store.compact(store.revision)
    await store.close()

    with closing(apsw.Connection(str(tmp_path / "data.db"))) as database:
        assert database.execute("SELECT count(*) FROM log").get == 0
        assert database.execute("PRAGMA freelist_count").get == 0


async def test_writes_commit_while_compaction_erases_many_revisions(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    made = await asyncio.gather(*(store.write(put(f"ns/{number}")) for number in range(2 * ERASED_TOGETHER)))
    await asyncio.gather(*(store.write(erase(record.path, record.revision)) for record in made))

    compaction = asyncio.create_task(store.compact(store.revision))
    await asyncio.sleep(0)  # its first part is queued before the write
    await store.write(put("ns/late"))

    assert not compaction.done()
    await compaction
    await store.close()


async def test_write_that_no_database_takes_does_not_end_the_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data.db")
    unstorable: Any = object()

    with pytest.raises(WriteFailed):
        await store.write(StoreChange(B, "ns/a", 0, lambda _: unstorable))

    assert (await store.write(put("ns/b"))).revision == 1
    await store.close()


@pytest.mark.parametrize("empty", [pytest.param(True, id="empty"), pytest.param(False, id="deleted")])
async def test_blank_store_is_not_begun_where_there_was_one(tmp_path: Path, *, empty: bool) -> None:
    path = tmp_path / "data.db"
    await written(path, "a")
    path.write_bytes(b"")
    if not empty:
        path.unlink()

    with pytest.raises(StoreMissing, match=r"put data\.db back from a backup, or remove everything"):
        SqliteStore(path)


async def test_copy_without_the_write_ahead_log_is_refused(tmp_path: Path) -> None:
    live, copy = tmp_path / "data.db", tmp_path / "copy.db"
    store = SqliteStore(live)
    for number in range(300):
        await store.write(put(f"ns/{number}"))
    copy.write_bytes(live.read_bytes())

    for _ in range(2):
        with pytest.raises(StoreIncomplete, match=r"copy\.db-wal"):
            SqliteStore(copy)
    await store.close()


async def test_copy_with_the_write_ahead_log_holds_every_write(tmp_path: Path) -> None:
    live, copy = tmp_path / "data.db", tmp_path / "copy.db"
    store = SqliteStore(live)
    for number in range(300):
        await store.write(put(f"ns/{number}"))
    for suffix in ("", "-wal"):
        copy.with_name(f"copy.db{suffix}").write_bytes(live.with_name(f"data.db{suffix}").read_bytes())
    await store.close()

    other = SqliteStore(copy)

    assert len(other.records(B)) == 300
    await other.close()


async def test_file_put_back_after_a_crash_reuses_no_revision(tmp_path: Path) -> None:
    live, backup = tmp_path / "data.db", tmp_path / "backup.db"
    await written(live, "a")
    backup.write_bytes(live.read_bytes())
    crashed = SqliteStore(live)
    for number in range(250):
        await crashed.write(put(f"ns/{number}"))
    marker = (tmp_path / "data.db.mark").read_bytes()
    lost = crashed.revision
    await crashed.close()
    (tmp_path / "data.db.mark").write_bytes(marker)  # as a crash leaves it
    live.write_bytes(backup.read_bytes())

    store = SqliteStore(live)

    assert store.revision > lost
    await store.close()


async def killed(path: Path, *, names: int) -> int:
    """Write, and leave the files as a killed process leaves them; return the last revision."""
    live = path.with_name("live.db")
    store = SqliteStore(live)
    for number in range(names):
        await store.write(put(f"ns/{number}"))
    for suffix in ("", "-wal"):
        path.with_name(f"{path.name}{suffix}").write_bytes(live.with_name(f"{live.name}{suffix}").read_bytes())
    write_marker(path.with_name(f"{path.name}.mark"), RestoreMarker.of(path, store.revision))
    await store.close()
    return store.revision


def cut(wal: Path) -> None:
    wal.write_bytes(wal.read_bytes()[:-5_000])


def damage(wal: Path) -> None:
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 1
    wal.write_bytes(data)


@pytest.mark.parametrize("spoil", [cut, damage])
async def test_writes_lost_with_the_write_ahead_log_are_counted_and_explained(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "data.db"
    last = await killed(path, names=100)
    spoil(path.with_name("data.db-wal"))

    store = SqliteStore(path)

    kept = len(store.records(B))
    assert kept < last
    assert store.new_epoch is not None
    assert store.new_epoch[:2] == ("Warning", "DataLost")
    assert f"the last {last - kept} writes (revisions {kept + 1} to {last})" in store.new_epoch.note
    assert (await store.write(put("ns/new"))).revision > last
    await store.close()


async def test_killed_process_loses_nothing_and_begins_no_epoch(tmp_path: Path) -> None:
    last = await killed(tmp_path / "data.db", names=100)

    store = SqliteStore(tmp_path / "data.db")

    assert (store.new_epoch, store.revision, len(store.records(B))) == (None, last, 100)
    await store.close()


async def test_empty_write_ahead_log_is_refused_until_the_loss_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    await killed(path, names=100)
    path.with_name("data.db-wal").write_bytes(b"")

    with pytest.raises(StoreIncomplete, match="is empty, and the last 100 writes are missing: put it back"):
        SqliteStore(path)
    path.with_name("data.db.mark").unlink()  # as the message says
    path.with_name("data.db-wal").write_bytes(b"")
    await SqliteStore(path).close()


async def test_changed_byte_inside_an_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    store = SqliteStore(path)
    await store.write(put("ns/a", b'{"accepted":"no"}'))
    copy = await store.copy()
    await store.close()
    path.write_bytes(path.read_bytes().replace(b'{"accepted":"no"}', b'{"accepted":"ok"}'))

    with pytest.raises(StoreCorrupt, match=r"things\.example\.com/ns/a \(revision 1\) is not as it was written"):
        SqliteStore(path)
    with pytest.raises(StoreCorrupt):
        read_snapshot(copy.replace(b'{"accepted":"no"}', b'{"accepted":"ok"}'), "backup")
