"""The objects that the hub sent: revisions of our own, deletions, and what an agent wrote itself."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.registration.grpc.client.object_events import ObjectCodec, ObjectEvent, WorkCodec
from watchword.registration.grpc.client.object_store import REMEMBERED_DELETIONS, ObjectStore
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


def types_since(store: ObjectStore, revision: int) -> list[str]:
    return [change.type for change in store.changes_since(revision) or ()]


def test_revision_grows_although_versions_of_the_hub_arrive_out_of_order(store: ObjectStore) -> None:
    store.receive(received("7", spec={"a": 1}))
    store.receive(received("5", spec={"a": 2}))

    found = store.find(KEY)
    assert found is not None
    assert (found.version, found.object["metadata"]["resourceVersion"]) == ("5", str(FIRST + 2))


def test_watch_that_continues_gets_the_latest_of_each_object(store: ObjectStore) -> None:
    store.receive(received("1", spec={"a": 1}))
    seen = store.revision
    store.receive(received("2", spec={"a": 2}))
    store.receive(received("3", spec={"a": 3}))

    assert types_since(store, FIRST) == ["ADDED"]
    assert types_since(store, seen) == ["MODIFIED"]
    assert types_since(store, store.revision) == []


def test_deletion_is_a_change_with_a_revision_of_its_own(store: ObjectStore) -> None:
    store.receive(received("1"))
    seen = store.revision
    store.receive(ObjectEvent(uid="u1", is_gone=True))

    changes = store.changes_since(seen)
    assert changes is not None
    assert [(change.type, change.revision) for change in changes] == [("DELETED", seen + 1)]
    assert store.find(KEY) is None


def test_object_that_is_replaced_under_its_name_is_deleted_first(store: ObjectStore) -> None:
    store.receive(received("1"))
    seen = store.revision
    store.receive(received("2", uid="u2"))

    assert types_since(store, seen) == ["DELETED", "ADDED"]
    assert store.versions == {"u2": "2"}


@pytest.mark.parametrize("revision", [FIRST - 1, FIRST + 100])
def test_revision_of_another_connection_is_unknown(store: ObjectStore, revision: int) -> None:
    store.receive(received("1"))

    assert store.changes_since(revision) is None


def test_watch_that_missed_forgotten_deletions_has_to_list_again(store: ObjectStore) -> None:
    for number in range(REMEMBERED_DELETIONS + 1):
        store.receive(received("1", uid=f"u{number}"))
        store.receive(ObjectEvent(uid=f"u{number}", is_gone=True))

    assert store.changes_since(FIRST) is None
    assert store.changes_since(store.revision) == []


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
