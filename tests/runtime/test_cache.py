from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator
from typing import Any

import orjson
import pytest

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.kube.packed_objects import PackedObjects
from watchword.kube.watch import Bookmark, ObjectChange, Snapshot, WatchUpdate
from watchword.runtime.cache import Cache
from watchword.runtime.errors import CacheError, UnexpectedExit
from watchword.runtime.informer import Informer, Reduction, WatchScope
from watchword.runtime.raw_objects import Delta, metadata_only

A, B = ObjectKey("ns", "a"), ObjectKey("ns", "b")


def raw(key: ObjectKey, version: int, *, metadata: Object | None = None, **fields: object) -> bytes:
    identity = {"name": key.name, "namespace": key.namespace, "uid": f"uid-{key}", "resourceVersion": str(version)}
    return orjson.dumps({"metadata": {**identity, **(metadata or {})}, **fields})


def added(key: ObjectKey, version: int, **fields: Any) -> ObjectChange:
    return ObjectChange("ADDED", raw(key, version, **fields), str(version))


def modified(key: ObjectKey, version: int, **fields: Any) -> ObjectChange:
    return ObjectChange("MODIFIED", raw(key, version, **fields), str(version))


def deleted(key: ObjectKey, version: int) -> ObjectChange:
    return ObjectChange("DELETED", raw(key, version), str(version))


def told(*facts: WatchUpdate, scope: WatchScope | None = None) -> Informer:
    informer = Informer(SECRETS, scope or WatchScope())
    for fact in facts:
        informer.handle_update(fact)
    return informer


def versions(informer: Informer) -> dict[str, str]:
    return {key.name: obj["metadata"]["resourceVersion"] for key, obj in informer.store.select()}


async def test_an_object_is_whole_with_kind_and_without_managed_fields() -> None:
    informer = told(Snapshot([raw(A, 1, data={"k": "v"}, metadata={"managedFields": [{"manager": "x"}]})], "5"))

    assert informer.store.get(A) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "namespace": "ns", "uid": "uid-ns/a", "resourceVersion": "1"},
        "data": {"k": "v"},
    }


async def test_data_that_only_mentions_managed_fields_is_left_alone() -> None:
    informer = told(Snapshot([raw(A, 1, data={"managedFields": "v"})], "5"))

    obj = informer.store.get(A)

    assert obj is not None
    assert obj["data"] == {"managedFields": "v"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([added(B, 6)], {"a": "1", "b": "6"}, id="added"),
        pytest.param([modified(A, 6)], {"a": "6"}, id="modified"),
        pytest.param([deleted(A, 6)], {}, id="deleted"),
        pytest.param([modified(A, 7), modified(A, 6)], {"a": "7"}, id="an old change after a newer one"),
        pytest.param([deleted(A, 7), modified(A, 6)], {}, id="an old change after a deletion"),
        pytest.param([deleted(A, 6), added(A, 7), deleted(A, 6)], {"a": "7"}, id="an old deletion after a new life"),
        pytest.param([added(B, 4)], {"a": "1"}, id="a change from before the snapshot"),
        pytest.param([Snapshot([raw(B, 8)], "9")], {"b": "8"}, id="a second snapshot replaces everything"),
        pytest.param([Snapshot([raw(A, 1)], "2"), added(B, 3)], {"a": "1", "b": "3"}, id="the server was restored"),
        pytest.param([ObjectChange("ADDED", b'{"metadata":{}}', "6")], {"a": "1"}, id="an object without a name"),
    ],
)
async def test_the_store_follows_the_facts(facts: list[WatchUpdate], expected: dict[str, str]) -> None:
    informer = told(Snapshot([raw(A, 1)], "5"), *facts)

    assert versions(informer) == expected


async def test_handlers_receive_each_version_once() -> None:
    informer = told(Snapshot([raw(A, 1)], "5"))
    heard: list[tuple[str, bool, bool]] = []
    informer.add_handler(lambda delta: heard.append((delta.key.name, delta.old is not None, delta.new is not None)))

    for fact in (modified(A, 6), modified(A, 6), Snapshot([raw(A, 6)], "7"), deleted(A, 8), deleted(A, 8)):
        informer.handle_update(fact)

    assert heard == [("a", False, True), ("a", True, True), ("a", True, False)]


async def test_a_listener_that_fails_on_one_object_does_not_stop_the_others() -> None:
    informer = told(Snapshot([], "5"))
    heard: list[str] = []

    def poisoned(delta: Delta) -> None:
        raise ZeroDivisionError

    informer.add_handler(poisoned)
    informer.add_handler(lambda delta: heard.append(delta.key.name))
    informer.handle_update(added(A, 6))

    assert heard == ["a"]


async def test_response_to_an_own_write_is_cached_immediately_and_reported_once() -> None:
    cache, heard = Cache(no_feed), list[str]()
    informer = cache.informer(SECRETS)
    informer.handle_update(Snapshot([raw(A, 1)], "5"))
    informer.add_handler(lambda delta: heard.append(delta.key.name))

    cache.observe_write(raw(A, 6, apiVersion="v1", kind="Secret"))
    informer.handle_update(modified(A, 6))

    assert versions(informer) == {"a": "6"}
    assert heard == ["a", "a"]


@pytest.mark.parametrize(
    ("scope", "answer"),
    [
        pytest.param(WatchScope(), raw(A, 3, apiVersion="v1", kind="Secret"), id="older than the watch"),
        pytest.param(WatchScope(), raw(B, 4, apiVersion="v1", kind="Secret"), id="gone before the snapshot"),
        pytest.param(WatchScope(), raw(B, 9, apiVersion="v1", kind="ConfigMap"), id="another kind"),
        pytest.param(WatchScope(), b'{"kind":"Status","metadata":{}}', id="not an object"),
        pytest.param(WatchScope(), b"<html>", id="not JSON"),
        pytest.param(WatchScope(labels="x=y"), raw(B, 9, apiVersion="v1", kind="Secret"), id="not selected by label"),
        pytest.param(WatchScope(namespace="other"), raw(B, 9, apiVersion="v1", kind="Secret"), id="another namespace"),
        pytest.param(
            WatchScope(fields="type=x"), raw(B, 9, apiVersion="v1", kind="Secret"), id="fields cannot be checked"
        ),
    ],
)
async def test_response_that_the_watch_may_not_select_is_not_cached(scope: WatchScope, answer: bytes) -> None:
    cache = Cache(no_feed)
    informer = cache.informer(SECRETS, scope)
    informer.handle_update(Snapshot([raw(A, 4)], "5"))

    cache.observe_write(answer)

    assert versions(informer) == {"a": "4"}


async def test_waiting_for_a_version_ends_when_the_watch_reaches_it() -> None:
    informer = told(Snapshot([], "5"))
    await informer.wait_for("5")
    waiting = asyncio.create_task(informer.wait_for("8"))
    await asyncio.sleep(1)
    assert not waiting.done()

    informer.handle_update(Bookmark("9"))

    await waiting


async def test_indexes_follow_every_change() -> None:
    cache = Cache(no_feed)
    cache.index(SECRETS, "type", lambda obj: [obj["type"]] if "type" in obj else [])
    informer = cache.informer(SECRETS)
    informer.handle_update(Snapshot([raw(A, 1, type="x"), raw(B, 2, type="x")], "5"))
    informer.handle_update(modified(A, 6, type="y"))
    informer.handle_update(deleted(B, 7))

    assert cache.by_index(SECRETS, "type", "x") == []
    assert [ObjectKey.of(obj) for obj in cache.by_index(SECRETS, "type", "y")] == [A]


async def test_collected_snapshot_is_indexed_and_reported_like_any_other() -> None:
    keys = [ObjectKey(f"ns-{number}", "a") for number in range(100)]
    collected = PackedObjects()
    for key in keys:
        collected.put(key, raw(key, 1, type="x", data={"k": "v" * 2000}))
    cache, reported = Cache(no_feed), list[ObjectKey]()
    cache.index(SECRETS, "type", lambda obj: [obj["type"]])
    cache.add_handler(SECRETS, lambda delta: reported.append(delta.key))

    cache.informer(SECRETS).handle_update(Snapshot(collected, "5"), reduced=True)
    cache.informer(SECRETS).handle_update(modified(keys[7], 6, type="y"))

    assert reported == [*keys, keys[7]]
    assert cache.index_keys(SECRETS, "type", "x") == sorted({*keys} - {keys[7]})
    assert cache.index_keys(SECRETS, "type", "y") == [keys[7]]


async def test_object_without_identity_in_a_collected_snapshot_is_ignored() -> None:
    collected = PackedObjects()
    collected.put(A, raw(A, 1, metadata={"labels": {"a": 1}}))
    collected.put(B, raw(B, 2))

    informer = Informer(SECRETS, WatchScope())
    informer.handle_update(Snapshot(collected, "5"), reduced=True)
    informer.handle_update(modified(B, 6))

    assert versions(informer) == {"b": "6"}


async def test_listing_one_namespace_reads_no_other() -> None:
    cache = Cache(no_feed)
    many = [raw(ObjectKey(f"ns-{number}", "a"), 1) for number in range(2000)]
    cache.informer(SECRETS).handle_update(Snapshot(many, "5"))
    calls = itertools.count()

    sys.setprofile(lambda *_: next(calls))
    try:
        found = cache.list(SECRETS, namespace="ns-1234")
    finally:
        sys.setprofile(None)

    assert [ObjectKey.of(obj) for obj in found] == [ObjectKey("ns-1234", "a")]
    assert next(calls) < 200


async def test_index_covers_a_part_of_a_kind_that_is_watched_later() -> None:
    cache = Cache(no_feed)
    cache.informer(SECRETS, WatchScope(labels="a"))
    cache.index(SECRETS, "type", lambda obj: [obj["type"]])

    later = cache.informer(SECRETS, WatchScope(labels="b"))
    later.handle_update(Snapshot([raw(A, 1, type="x")], "5"))

    assert [ObjectKey.of(obj) for obj in cache.by_index(SECRETS, "type", "x")] == [A]


async def test_index_has_every_key_of_a_value_that_several_objects_share() -> None:
    cache = Cache(no_feed)
    cache.index(SECRETS, "type", lambda obj: [obj["type"]])
    informer = cache.informer(SECRETS)
    c = ObjectKey("ns", "c")
    informer.handle_update(Snapshot([raw(A, 1, type="x"), raw(B, 2, type="x"), raw(c, 3, type="x")], "5"))
    informer.handle_update(deleted(A, 6))
    assert cache.index_keys(SECRETS, "type", "x") == [B, c]

    informer.handle_update(deleted(B, 7))
    informer.handle_update(deleted(c, 8))
    informer.handle_update(added(A, 9, type="x"))

    assert cache.index_keys(SECRETS, "type", "x") == [A]


async def test_labels_of_all_objects_are_read_one_by_one() -> None:
    cache = Cache(no_feed)
    informer = cache.informer(SECRETS)
    informer.handle_update(Snapshot([raw(A, 1, metadata={"labels": {"app": "x"}}), raw(B, 2)], "5"))

    assert list(cache.labels(SECRETS)) == [{"app": "x"}, {}]


async def test_all_handlers_of_a_change_share_one_decoded_object() -> None:
    informer = told(Snapshot([raw(A, 1)], "5"))
    seen: list[Object | None] = []
    informer.add_handler(lambda delta: seen.append(delta.new))
    informer.add_handler(lambda delta: seen.append(delta.new))
    seen.clear()

    informer.handle_update(modified(A, 6))

    assert len(seen) == 2
    assert seen[0] is seen[1]


async def test_reader_that_changes_an_object_of_the_cache_is_detected() -> None:
    informer = told(Snapshot([raw(A, 1), raw(B, 2)], "5"))
    found = informer.store.get(A)
    assert found is not None
    found["metadata"]["labels"] = {"a": "b"}

    with pytest.raises(AssertionError, match=f"a reader changed secrets {A} in the cache"):
        informer.store.get(A)
    with pytest.raises(AssertionError, match="a reader changed"):
        dict(informer.store.select())
    assert informer.store.get(B) is not None


async def test_what_is_of_no_interest_is_not_kept() -> None:
    informer = Informer(SECRETS, WatchScope(), project=lambda obj: obj if obj.get("type") == "ours" else None)
    heard: list[bool] = []
    informer.add_handler(lambda delta: heard.append(delta.new is None))

    informer.handle_update(Snapshot([raw(A, 1, type="theirs"), raw(B, 2, type="ours")], "5"))
    informer.handle_update(modified(B, 6, type="theirs"))
    informer.handle_update(modified(B, 2, type="ours"))

    assert len(informer.store) == 0
    assert heard == [False, True]


async def test_a_projection_never_loses_the_identity() -> None:
    informer = Informer(SECRETS, WatchScope(), project=metadata_only)
    informer.handle_update(Snapshot([raw(A, 1, data={"password": "hunter2"}, metadata={"labels": {"x": "y"}})], "5"))

    obj = informer.store.get(A)

    assert obj is not None
    assert set(obj) == {"apiVersion", "kind", "metadata"}
    assert obj["metadata"]["labels"] == {"x": "y"}


@pytest.mark.parametrize("damaged", [b"5", b"null", b"[]", b"{}", b'{"metadata":null}', b'{"metadata":{"uid":"u"}}'])
async def test_object_without_a_name_is_dropped_before_it_is_projected(damaged: bytes) -> None:
    store = Informer(SECRETS, WatchScope(), project=lambda obj: {"metadata": obj["metadata"]}).store

    assert store.reduce(damaged) is None
    assert store.reduce(raw(A, 1)) is not None


async def test_a_list_is_in_key_order_and_selected() -> None:
    cache = Cache(no_feed)
    keys = [ObjectKey("z", "a"), ObjectKey("a", "z"), ObjectKey("a", "b")]
    items = [raw(key, 1, metadata={"labels": {"name": key.name}}) for key in keys]
    cache.informer(SECRETS).handle_update(Snapshot(items, "5"))

    assert [str(ObjectKey.of(obj)) for obj in cache.list(SECRETS)] == ["a/b", "a/z", "z/a"]
    assert [str(ObjectKey.of(obj)) for obj in cache.list(SECRETS, namespace="a", labels="name!=b")] == ["a/z"]


async def test_callers_with_the_same_scope_share_one_informer() -> None:
    cache = Cache(no_feed)

    assert cache.informer(SECRETS) is cache.informer(SECRETS)
    assert cache.informer(SECRETS, WatchScope(labels="a=b")) is not cache.informer(SECRETS)


async def test_several_scopes_of_one_kind_read_as_one() -> None:
    cache = Cache(no_feed)
    for name in ("one", "two"):
        informer = cache.informer(SECRETS, WatchScope(namespace=name))
        informer.handle_update(Snapshot([raw(ObjectKey(name, "a"), 1)], "5"))

    assert [str(ObjectKey.of(obj)) for obj in cache.list(SECRETS)] == ["one/a", "two/a"]
    with pytest.raises(CacheError, match="three"):
        cache.get(SECRETS, ObjectKey("three", "a"))


async def test_reading_an_unwatched_kind_raises_instead_of_returning_nothing() -> None:
    cache = Cache(no_feed)
    cache.informer(SECRETS)

    with pytest.raises(CacheError, match="configmaps"):
        cache.list(CONFIG_MAPS)
    with pytest.raises(CacheError, match="index"):
        cache.by_index(SECRETS, "owner", "x")


async def test_two_projections_of_one_scope_are_refused() -> None:
    cache = Cache(no_feed)
    cache.informer(SECRETS, project=metadata_only)

    with pytest.raises(CacheError, match="projection"):
        cache.informer(SECRETS, project=dict)


async def test_running_cache_syncs_informers_added_later_and_reports_their_age() -> None:
    cache = Cache(one_snapshot)
    cache.informer(SECRETS)
    running = asyncio.create_task(cache.run())
    await cache.sync()

    late = cache.informer(CONFIG_MAPS)
    assert not cache.synced
    await cache.sync()
    await asyncio.sleep(30)

    assert (cache.synced, late.age()) == (True, 30)
    running.cancel()


async def test_what_is_dropped_is_not_followed_and_not_waited_for() -> None:
    async def feed(resource: Resource, _: WatchScope, _reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
        if resource == SECRETS:
            yield Snapshot([raw(A, 1)], "1")
        await asyncio.Event().wait()

    cache = Cache(feed)
    cache.informer(SECRETS)
    running = asyncio.create_task(cache.run())
    await cache.sync()
    refused = cache.informer(CONFIG_MAPS)
    waiting = cache.synced

    cache.drop(refused)

    assert (waiting, cache.synced) == (False, True)
    with pytest.raises(CacheError):
        cache.get(CONFIG_MAPS, A)
    assert cache.informer(CONFIG_MAPS) is not refused
    running.cancel()
    await asyncio.wait([running])


async def test_a_watch_that_ends_brings_the_cache_down() -> None:
    cache = Cache(no_feed)
    cache.informer(SECRETS)

    with pytest.RaisesGroup(pytest.RaisesExc(UnexpectedExit, match="secrets")):
        await cache.run()


async def no_feed(resource: Resource, scope: WatchScope, reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    for version in tuple[str, ...]():
        yield Bookmark(version)


async def one_snapshot(resource: Resource, scope: WatchScope, reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    yield Snapshot([], "5")
    await asyncio.Event().wait()
