"""Objects kept compressed are read back as they were put, and take a part of their size."""

from __future__ import annotations

import sys
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from watchword.api.meta import ObjectKey
from watchword.kube.packed_objects import FIRST_SAMPLE, NEXT_SAMPLE, PackedObjects


def work(number: int, *, status: str = "Applied") -> tuple[ObjectKey, bytes]:
    key = ObjectKey(f"cluster-{number // 3}", f"work-{number}")
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"{number * 7919:032x}"}
    manifest = {"kind": "Deployment", "spec": {f"field-{n}": f"value {n}" for n in range(40)}}
    return key, orjson.dumps({"metadata": metadata, "spec": {"manifests": [manifest]}, "status": status})


def packed(objects: list[tuple[ObjectKey, bytes]]) -> PackedObjects:
    found = PackedObjects()
    for key, raw in objects:
        found.put(key, raw)
    return found


def test_every_object_is_read_back_whatever_the_number() -> None:
    objects = [work(number) for number in range(FIRST_SAMPLE * NEXT_SAMPLE + 10)]

    found = packed(objects)

    assert dict(found.items()) == dict(objects)
    assert sorted(found.object_keys(), key=str) == sorted(dict(objects), key=str)
    assert [found.get(key) for key, _ in objects] == [raw for _, raw in objects]
    assert len(found) == len(objects)


def test_similar_objects_take_less_than_a_fifth_of_their_size() -> None:
    objects = [work(number) for number in range(300)]
    found = packed(objects)

    stored = sum(sys.getsizeof(raw) for names in found._namespaces.values() for raw in names.values())

    assert stored < sum(len(raw) for _, raw in objects) / 5


def test_object_that_is_put_again_replaces_the_earlier_one() -> None:
    found = packed([work(number) for number in range(100)])
    key, newer = work(7, status="Available")

    found.put(key, newer)

    assert found.get(key) == newer
    assert len(found) == 100


def test_namespace_has_its_own_objects_and_no_others() -> None:
    found = packed([work(number) for number in range(100)])

    assert dict(found.items(namespace="cluster-2")) == dict(work(number) for number in (6, 7, 8))
    assert dict(found.items(namespace="nowhere")) == {}


def test_removed_object_is_gone_and_removing_it_again_changes_nothing() -> None:
    found = packed([work(number) for number in range(100)])
    key, _ = work(99)

    found.remove(key)
    found.remove(key)

    assert found.get(key) is None
    assert len(found) == 99


@given(st.lists(st.dictionaries(st.text(max_size=20), st.text(max_size=3000), max_size=3), max_size=60))
def test_objects_of_any_content_are_read_back(contents: list[dict[str, Any]]) -> None:
    objects = [(ObjectKey("", str(number)), orjson.dumps(content)) for number, content in enumerate(contents)]

    assert dict(packed(objects).items()) == dict(objects)


def test_blanks_before_an_object_are_not_kept() -> None:
    found = packed([work(number) for number in range(100)])
    key, raw = work(200)

    found.put(key, b"\n " + raw)

    assert found.get(key) == raw
