"""JSON patches apply in order, or are refused as a whole."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.apiserver.serving.model import ApiError
from watchword.apiserver.serving.patch import MAX_OPERATIONS, apply_json_patch, unknown_operation_fields


def op(name: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **fields}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([], {"a": {"b": "1"}, "l": [1, 2]}, id="nothing"),
        pytest.param([op("add", "/a/c", value=2)], {"a": {"b": "1", "c": 2}, "l": [1, 2]}, id="add a field"),
        pytest.param([op("add", "/l/1", value=9)], {"a": {"b": "1"}, "l": [1, 9, 2]}, id="add before an item"),
        pytest.param([op("add", "/l/-", value=9)], {"a": {"b": "1"}, "l": [1, 2, 9]}, id="append"),
        pytest.param([op("add", "/l/-1", value=9)], {"a": {"b": "1"}, "l": [1, 2, 9]}, id="negative index"),
        pytest.param([op("add", "/a")], {"a": None, "l": [1, 2]}, id="no value is null"),
        pytest.param([op("remove", "/a/b")], {"a": {}, "l": [1, 2]}, id="remove"),
        pytest.param([op("replace", "/a/new", value=1)], {"a": {"b": "1", "new": 1}, "l": [1, 2]}, id="replace sets"),
        pytest.param([op("replace", "/l/0", value=5)], {"a": {"b": "1"}, "l": [5, 2]}, id="replace an item"),
        pytest.param([op("replace", "", value={"x": 1})], {"x": 1}, id="replace the document"),
        pytest.param([op("move", "/m", **{"from": "/a/b"})], {"a": {}, "l": [1, 2], "m": "1"}, id="move"),
        pytest.param([op("copy", "/l/-", **{"from": "/a"})], {"a": {"b": "1"}, "l": [1, 2, {"b": "1"}]}, id="copy"),
        pytest.param([op("copy", "/n", **{"from": "/x"})], {"a": {"b": "1"}, "l": [1, 2], "n": None}, id="copy none"),
        pytest.param([op("test", "/a/b", value="1")], {"a": {"b": "1"}, "l": [1, 2]}, id="test"),
        pytest.param([op("test", "/no", value=None)], {"a": {"b": "1"}, "l": [1, 2]}, id="test for absence"),
        pytest.param([op("add", "/x~1y~0z", value=1)], {"a": {"b": "1"}, "l": [1, 2], "x/y~z": 1}, id="escaped key"),
    ],
)
def test_apply_json_patch(operations: Any, expected: Any) -> None:
    assert apply_json_patch({"a": {"b": "1"}, "l": [1, 2]}, operations) == expected


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        pytest.param({"op": "add"}, 400, id="not a list"),
        pytest.param([1], 400, id="operation is not an object"),
        pytest.param([{"op": 5, "path": "/a"}], 400, id="op is not text"),
        pytest.param([op("add", "/a")] * (MAX_OPERATIONS + 1), 413, id="too many"),
        pytest.param([None], 422, id="null operation"),
        pytest.param([op("bogus", "/a")], 422, id="unknown op"),
        pytest.param([{"op": "add"}], 422, id="no path"),
        pytest.param([op("add", "", value=1)], 422, id="add at the root"),
        pytest.param([op("add", "/x/y", value=1)], 422, id="missing parent"),
        pytest.param([op("add", "/a/b/c", value=1)], 422, id="parent is text"),
        pytest.param([op("add", "/l/9", value=1)], 422, id="index out of range"),
        pytest.param([op("add", "/l/x", value=1)], 422, id="index is a word"),
        pytest.param([op("remove", "/a/x")], 422, id="remove what is not there"),
        pytest.param([op("replace", "", value=[])], 422, id="document becomes a list"),
        pytest.param([op("test", "/a/b", value="2")], 422, id="test differs"),
        pytest.param([op("test", "/one", value=True)], 422, id="1 is not true"),
        pytest.param([op("move", "/a/x", **{"from": "/no"})], 422, id="move nothing"),
    ],
)
def test_a_patch_that_does_not_apply_is_refused(operations: Any, code: int) -> None:
    with pytest.raises(ApiError) as refusal:
        apply_json_patch({"a": {"b": "1"}, "l": [1, 2], "one": 1}, operations)

    assert refusal.value.code == code


def test_copies_cannot_grow_without_bound() -> None:
    doubling = [op("copy", f"/a/k{i}", **{"from": "/a"}) for i in range(60)]

    with pytest.raises(ApiError) as refusal:
        apply_json_patch({"a": {"b": "x" * 1000}}, doubling)

    assert refusal.value.code == 422


def test_moves_cannot_nest_without_bound() -> None:
    nesting = [op("add", "/b", value={}), op("move", "/b/a", **{"from": "/a"}), op("move", "/a", **{"from": "/b"})]

    with pytest.raises(ApiError) as refusal:
        apply_json_patch({"a": {}}, nesting * 500)

    assert refusal.value.code == 422


def test_values_of_a_patch_are_not_shared_with_the_result() -> None:
    operations = [op("add", "/x", value={"y": 1})]

    first = apply_json_patch({}, operations)
    first["x"]["y"] = 2

    assert apply_json_patch({}, operations) == {"x": {"y": 1}}


def test_unknown_fields_of_operations_are_reported() -> None:
    assert unknown_operation_fields([op("add", "/x", valu=1)]) == ["[0].valu"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(st.sampled_from(["a", "b", "0", "-1", "-", "~1", ""]), max_size=3).map(
    lambda p: "".join(f"/{x}" for x in p)
)
OPERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]) | JSON,
        "path": PATHS | JSON,
        "from": PATHS | JSON,
        "value": JSON,
    },
)


@settings(max_examples=80)
@given(document=st.dictionaries(st.sampled_from("ab"), JSON), operations=st.lists(OPERATIONS | JSON, max_size=4) | JSON)
def test_no_patch_raises_anything_but_a_refusal(document: dict[str, Any], operations: Any) -> None:
    with contextlib.suppress(ApiError):
        assert isinstance(apply_json_patch(document, operations), dict)
