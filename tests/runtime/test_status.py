from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.helpers.memory_api import MemoryApi

from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.kube.errors import Conflict
from watchword.runtime.status import StatusChange, StatusWriter, choose_row_patch, choose_status_patch
from watchword.testing.virtual_time import EPOCH, VirtualClock

KEY = ObjectKey.cluster("edge")
PATH = MANAGED_CLUSTERS.path(KEY)
READY = Condition.true("Ready", "Joined")
AT_START = "2026-01-01T00:00:00Z"


def cluster(**status: object) -> Object:
    return MANAGED_CLUSTERS.manifest(KEY, metadata={"generation": 3}, status=dict(status))


def row(condition: Condition, *, since: str = AT_START, generation: int = 3) -> Object:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


@pytest.mark.parametrize(
    ("status", "change", "expected"),
    [
        pytest.param({"conditions": [row(READY)]}, StatusChange((READY,)), None, id="nothing new"),
        pytest.param({"a": 1}, StatusChange(fields={"a": 1}), None, id="an equal field"),
        pytest.param({}, StatusChange(without=("Ready",)), None, id="nothing to remove"),
        pytest.param(
            {}, StatusChange((READY,)), {"conditions": [row(READY, since="2026-01-01T01:00:00Z")]}, id="the first"
        ),
        pytest.param(
            {"conditions": [row(READY, generation=2)]},
            StatusChange((READY,)),
            {"conditions": [row(READY)]},
            id="a new generation keeps the transition time",
        ),
        pytest.param(
            {"conditions": [row(READY)]},
            StatusChange((Condition.false("Ready", "Lost"),)),
            {"conditions": [row(Condition.false("Ready", "Lost"), since="2026-01-01T01:00:00Z")]},
            id="a transition moves it",
        ),
        pytest.param(
            {"conditions": [row(READY), row(Condition.true("Old", "X"))]},
            StatusChange((READY,), without=("Old",)),
            {"conditions": [row(READY)]},
            id="one kept, one removed",
        ),
        pytest.param(
            {"a": {"x": 1, "y": {"z": 1}}},
            StatusChange(fields={"a": {"y": {"w": 2}}}),
            {"a": {"x": None, "y": {"z": None, "w": 2}}},
            id="what is gone inside a field is named",
        ),
        pytest.param({"a": 1, "b": 2}, StatusChange(fields={"a": None, "b": 2}), {"a": None}, id="a field removed"),
    ],
)
def test_choose_status_patch(status: Object, change: StatusChange, expected: Object | None) -> None:
    assert choose_status_patch(cluster(**status), change, now=EPOCH + timedelta(hours=1)) == expected


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
async def writer(api: MemoryApi) -> StatusWriter:
    return StatusWriter(Client.from_handler(api.handle), VirtualClock(asyncio.get_running_loop()))


async def test_a_condition_is_written_once_and_only_once(api: MemoryApi, writer: StatusWriter) -> None:
    obj = api.put(PATH, cluster())

    obj = await writer.set_condition(MANAGED_CLUSTERS, obj, READY)
    await writer.set_conditions(MANAGED_CLUSTERS, obj, [READY])

    assert api.requests == [("PATCH", f"{PATH}/status")]
    assert api.objects[PATH]["status"]["conditions"] == [row(READY)]


UID = {"op": "test", "path": "/metadata/uid", "value": "u"}


@pytest.mark.parametrize(
    ("status", "change", "expected"),
    [
        pytest.param({}, StatusChange((READY,)), [], id="a list that is not there"),
        pytest.param({"conditions": []}, StatusChange(fields={"a": 1}), [], id="a field that is not there"),
        pytest.param(
            {"conditions": [row(Condition.true("Theirs", "X")), row(READY, generation=2)]},
            StatusChange((READY,)),
            [
                UID,
                {"op": "test", "path": "/status/conditions/1", "value": row(READY, generation=2)},
                {"op": "replace", "path": "/status/conditions/1", "value": row(READY)},
            ],
            id="one row",
        ),
        pytest.param(
            {"conditions": [row(READY)]},
            StatusChange(without=("Ready",)),
            [
                UID,
                {"op": "test", "path": "/status/conditions", "value": [row(READY)]},
                {"op": "replace", "path": "/status/conditions", "value": []},
            ],
            id="a row less",
        ),
        pytest.param(
            {"a": [1], "b": 2},
            StatusChange(fields={"a": [2], "b": None}),
            [
                UID,
                {"op": "test", "path": "/status/a", "value": [1]},
                {"op": "replace", "path": "/status/a", "value": [2]},
                {"op": "test", "path": "/status/b", "value": 2},
                {"op": "remove", "path": "/status/b"},
            ],
            id="fields",
        ),
    ],
)
def test_choose_row_patch(status: Object, change: StatusChange, expected: list[Object]) -> None:
    found = MANAGED_CLUSTERS.manifest(KEY, metadata={"generation": 3, "uid": "u"}, status=status)

    merge_patch = choose_status_patch(found, change, now=EPOCH)

    assert merge_patch is not None
    assert choose_row_patch(found, change, merge_patch) == expected


async def test_a_write_from_a_stale_read_does_not_undo_what_others_wrote(api: MemoryApi, writer: StatusWriter) -> None:
    stale = api.put(PATH, cluster())
    api.put(PATH, {**stale, "status": {"conditions": [row(Condition.true("Theirs", "X"))]}})

    await writer.set_condition(MANAGED_CLUSTERS, stale, READY)

    types = [condition["type"] for condition in api.objects[PATH]["status"]["conditions"]]
    assert types == ["Theirs", "Ready"]


async def test_an_object_of_the_same_name_is_not_the_same_object(api: MemoryApi, writer: StatusWriter) -> None:
    old = api.put(PATH, cluster())
    api.put(PATH, cluster())

    with pytest.raises(Conflict):
        await writer.set_condition(MANAGED_CLUSTERS, old, READY)

    assert api.objects[PATH]["status"] == {}


class Remembered:
    """A cache with one object."""

    def __init__(self, obj: Object) -> None:
        self.obj = obj

    def get(self, _resource: Resource, _key: ObjectKey) -> Object | None:
        return self.obj

    def list(self, _resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        raise NotImplementedError(namespace, labels)

    def by_index(self, _resource: Resource, index: str, value: str) -> Sequence[Object]:
        raise NotImplementedError(index, value)


async def test_after_a_conflict_the_newer_object_of_the_cache_is_written(api: MemoryApi, writer: StatusWriter) -> None:
    stale = api.put(PATH, cluster())
    newer = api.put(PATH, {**stale, "status": {"conditions": [row(Condition.true("Theirs", "X"))]}})

    await replace(writer, reader=Remembered(newer)).set_condition(MANAGED_CLUSTERS, stale, READY)

    assert [method for method, _ in api.requests] == ["PATCH", "PATCH"]
    types = [condition["type"] for condition in api.objects[PATH]["status"]["conditions"]]
    assert types == ["Theirs", "Ready"]


async def test_a_cache_that_is_as_stale_as_the_reader_is_not_asked(api: MemoryApi, writer: StatusWriter) -> None:
    stale = api.put(PATH, cluster())
    api.put(PATH, {**stale, "status": {"conditions": [row(Condition.true("Theirs", "X"))]}})

    await replace(writer, reader=Remembered(stale)).set_condition(MANAGED_CLUSTERS, stale, READY)

    assert [method for method, _ in api.requests] == ["PATCH", "GET", "PATCH"]
