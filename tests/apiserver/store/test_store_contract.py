"""The contract of a store, checked on each implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import Compacted, Record, RevisionConflict, Store, StoreChange, StoreEvent
from watchword.apiserver.store.sqlite import SqliteStore

pytestmark = pytest.mark.real_time

B = "things.example.com"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "data.db")
    yield opened
    await opened.close()


def put(path: str, text: str = "", expected: int = 0, bucket: str = B) -> StoreChange:
    return StoreChange(bucket, path, expected, _rendering(text))


def erase(path: str, expected: int, text: str = "") -> StoreChange:
    return StoreChange(B, path, expected, _rendering(text), deleted=True)


def _rendering(text: str) -> Callable[[int], bytes]:
    return lambda revision: f"{text}@{revision}".encode()


def paths(records: list[Record]) -> list[str]:
    return [record.path for record in records]


async def test_revisions_count_every_write_of_every_bucket(store: Store) -> None:
    first = await store.write(put("ns/a"))
    second = await store.write(put("ns/b", bucket="others"))
    third = await store.write(put("ns/a", expected=first.revision))

    assert (first.revision, second.revision, third.revision, store.revision) == (1, 2, 3, 3)


async def test_the_body_is_rendered_with_its_own_revision(store: Store) -> None:
    await store.write(put("ns/a", "x"))
    await store.write(put("ns/b", "y"))

    found = store.get(B, "ns/b")

    assert found is not None
    assert found.body == b"y@2"


@pytest.mark.parametrize(
    ("existing", "change"),
    [
        pytest.param(0, put("ns/a", expected=7), id="update of what never existed"),
        pytest.param(1, put("ns/a", expected=0), id="create of what exists"),
        pytest.param(1, put("ns/a", expected=9), id="update of another revision"),
        pytest.param(1, erase("ns/a", expected=9), id="delete of another revision"),
    ],
)
async def test_a_write_built_on_something_else_is_refused(store: Store, existing: int, change: StoreChange) -> None:
    if existing:
        await store.write(put("ns/a", "x"))

    with pytest.raises(RevisionConflict):
        await store.write(change)

    assert store.revision == existing


async def test_of_writers_racing_for_one_object_exactly_one_wins(store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.write(put("ns/a", str(writer))) for writer in range(20)), return_exceptions=True
    )

    winners = [outcome for outcome in outcomes if isinstance(outcome, Record)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, RevisionConflict) for outcome in outcomes) == 19
    assert store.get(B, "ns/a") == winners[0]


async def test_a_counter_loses_no_increment_under_concurrent_writers(store: Store) -> None:
    await store.write(put("ns/n", "0"))

    async def increment() -> None:
        while True:
            latest = store.latest(B, "ns/n")
            assert latest is not None
            number = int(latest.body.partition(b"@")[0]) + 1
            try:
                await store.write(put("ns/n", str(number), latest.revision))
            except RevisionConflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(50)))

    found = store.get(B, "ns/n")
    assert found is not None
    assert found.body == b"50@51"


async def test_records_come_in_order_of_their_paths_as_bytes(store: Store) -> None:
    for path in ("b/x", "a/y", "a-b/x", "a/x", "A/x"):
        await store.write(put(path))

    assert paths(store.records(B)) == ["A/x", "a-b/x", "a/x", "a/y", "b/x"]
    assert paths(store.records(B, "a")) == ["a/x", "a/y"]


async def test_deleted_records_are_gone_and_their_name_is_free(store: Store) -> None:
    record = await store.write(put("ns/a"))
    await store.write(erase("ns/a", record.revision))

    again = await store.write(put("ns/a"))

    assert again.revision == 3
    assert paths(store.records(B)) == ["ns/a"]


async def test_events_tell_every_change_after_a_revision(store: Store) -> None:
    first = await store.write(put("ns/a", "old"))
    second = await store.write(put("ns/a", "new", first.revision))
    third = await store.write(erase("ns/a", second.revision, "new"))

    events = store.events_after(B, first.revision)

    assert events == [StoreEvent(second, first), StoreEvent(third, second, deleted=True)]
    assert store.events_after(B, third.revision) == []


async def test_listeners_receive_changes_of_their_bucket_in_order_until_they_stop(store: Store) -> None:
    heard: list[int] = []
    stop = store.subscribe(B, lambda event: heard.append(event.revision))
    await asyncio.gather(*(store.write(put(f"ns/{number}")) for number in range(5)))
    await store.write(put("ns/x", bucket="others"))
    stop()
    await store.write(put("ns/y"))

    assert heard == [1, 2, 3, 4, 5]


async def test_a_listener_sees_the_write_as_committed(store: Store) -> None:
    seen: list[Record | None] = []
    store.subscribe(B, lambda event: seen.append(store.get(B, event.record.path)))

    record = await store.write(put("ns/a"))

    assert seen == [record]


async def test_a_snapshot_shows_the_records_of_a_past_revision(store: Store) -> None:
    a = await store.write(put("ns/a", "1"))
    b = await store.write(put("ns/b", "1"))
    await store.write(put("ns/a", "2", a.revision))
    await store.write(erase("ns/b", b.revision))
    await store.write(put("ns/c"))

    assert store.snapshot(B, 2) == [a, b]
    assert store.snapshot(B, 1) == [a]
    assert store.snapshot(B, 5) == store.records(B)


async def test_a_snapshot_of_one_namespace_leaves_out_the_others(store: Store) -> None:
    a = await store.write(put("one/a", "1"))
    await store.write(put("two/b", "1"))
    await store.write(erase("one/a", a.revision))

    assert store.snapshot(B, 2, "one") == [a]


async def test_compaction_forgets_the_past_and_keeps_the_present(store: Store) -> None:
    a = await store.write(put("ns/a", "1"))
    await store.write(put("ns/a", "2", a.revision))
    latest = await store.write(put("ns/b"))

    await store.compact(2)

    with pytest.raises(Compacted):
        store.events_after(B, 1)
    with pytest.raises(Compacted):
        store.snapshot(B, 1)
    assert [event.record for event in store.events_after(B, 2)] == [latest]
    assert paths(store.records(B)) == ["ns/a", "ns/b"]


async def test_settled_waits_for_writes_under_way(store: Store) -> None:
    writes = [asyncio.ensure_future(store.write(put(f"ns/{number}"))) for number in range(10)]
    await asyncio.sleep(0)

    await store.flush()

    assert store.revision == 10
    await asyncio.gather(*writes)
