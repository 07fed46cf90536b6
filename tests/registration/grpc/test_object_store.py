"""The objects that the hub sent: revisions of our own, deletions, and what an agent wrote itself."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.registration.grpc.client.object_events import ObjectCodec, ObjectEvent, WorkCodec
from watchword.registration.grpc.client.object_store import ObjectStore, StoredObject
from watchword.registration.grpc.client.transport import watch_changes
from watchword.registration.grpc.cloud_events import DataType

FIRST = 1000
KEY = ObjectKey.cluster("edge")


def a_cluster(version: str, uid: str = "u1", **fields: Any) -> Object:
    return {"metadata": {"name": "edge", "uid": uid, "resourceVersion": version}, **fields}


def received(version: str, **fields: Any) -> ObjectEvent:
    obj = a_cluster(version, **fields)
    return ObjectEvent(uid=obj["metadata"]["uid"], version=version, object=obj)


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore(ObjectCodec(DataType.MANAGED_CLUSTER), first_revision=FIRST)


class Watch:
    """What one watch of all objects of a store has sent."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._sent: dict[str, StoredObject] = {}
        self._position = -1

    def changes(self) -> list[tuple[str, int]]:
        lines = [orjson.loads(line) for line in watch_changes(self._store, self._sent, since=self._position)]
        self._position = self._store.revision
        return [(line["type"], int(line["object"]["metadata"]["resourceVersion"])) for line in lines]


def test_revision_grows_although_versions_of_the_hub_arrive_out_of_order(store: ObjectStore) -> None:
    store.receive(received("7", spec={"a": 1}))
    store.receive(received("5", spec={"a": 2}))

    found = store.find(KEY)
    assert found is not None
    assert (found.version, found.object["metadata"]["resourceVersion"]) == ("5", str(FIRST + 2))


def test_watch_gets_the_latest_of_each_object(store: ObjectStore) -> None:
    watch = Watch(store)
    store.receive(received("1", spec={"a": 1}))
    store.receive(received("2", spec={"a": 2}))
    first = watch.changes()
    store.receive(received("3", spec={"a": 3}))
    store.receive(received("4", spec={"a": 4}))

    assert (first, watch.changes(), watch.changes()) == ([("ADDED", FIRST + 2)], [("MODIFIED", FIRST + 4)], [])


@pytest.mark.parametrize("deletion", [[ObjectEvent(uid="u1", is_gone=True)], []], ids=["told", "not told"])
def test_object_that_takes_the_name_of_another_is_newer_than_its_deletion(
    store: ObjectStore, deletion: list[ObjectEvent]
) -> None:
    watch = Watch(store)
    store.receive(received("5"))
    watch.changes()
    for event in (*deletion, received("3", uid="u2")):
        store.receive(event)

    assert watch.changes() == [("DELETED", FIRST + 2), ("ADDED", FIRST + 3)]


def test_deletion_is_a_change_with_a_revision_of_its_own(store: ObjectStore) -> None:
    watch = Watch(store)
    store.receive(received("1"))
    watch.changes()
    store.receive(ObjectEvent(uid="u1", is_gone=True))

    assert watch.changes() == [("DELETED", FIRST + 2)]
    assert store.find(KEY) is None


def test_object_that_is_replaced_under_its_name_is_deleted_first(store: ObjectStore) -> None:
    watch = Watch(store)
    store.receive(received("1"))
    watch.changes()
    store.receive(received("2", uid="u2"))

    assert [type_ for type_, _ in watch.changes()] == ["DELETED", "ADDED"]
    assert store.versions == {"u2": "2"}


def test_result_of_our_own_write_is_no_second_change(store: ObjectStore) -> None:
    store.receive(received("1"))
    stored = store.find(KEY)
    assert stored is not None
    written = store.write(stored, a_cluster("1", status={"version": "v1"}))

    store.receive(received("2", status={"version": "v1"}))

    found = store.find(KEY)
    assert found is not None
    assert written.is_written
    assert (found.revision, found.version, found.is_written) == (written.revision, "2", False)


def test_deletion_that_has_begun_is_noted_on_the_object(store: ObjectStore) -> None:
    store.receive(received("1", spec={"a": 1}))
    store.receive(ObjectEvent(uid="u1", version="2", deletion="2026-01-01T00:00:00Z"))

    found = store.find(KEY)
    assert found is not None
    assert found.object["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert found.object["spec"] == {"a": 1}


def test_deletion_of_an_object_that_was_never_seen_is_ignored(store: ObjectStore) -> None:
    store.receive(ObjectEvent(uid="u9", version="2", deletion="2026-01-01T00:00:00Z"))
    store.receive(ObjectEvent(uid="u9", is_gone=True))

    assert list(store) == []


def test_work_keeps_the_status_that_its_agent_wrote() -> None:
    store = ObjectStore(WorkCodec(), first_revision=FIRST)
    work: Object = {"metadata": {"name": "w", "namespace": "edge", "uid": "u1"}, "spec": {"a": 1}}
    store.receive(ObjectEvent(uid="u1", version="1", object=work))
    stored = store.find(ObjectKey("edge", "w"))
    assert stored is not None
    store.write(stored, {**work, "status": {"conditions": []}})

    store.receive(ObjectEvent(uid="u1", version="2", object={**work, "spec": {"a": 2}, "status": {"old": True}}))

    found = store.find(ObjectKey("edge", "w"))
    assert found is not None
    assert (found.object["spec"], found.object["status"]) == ({"a": 2}, {"conditions": []})
