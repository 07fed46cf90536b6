"""Merge patches follow RFC 7386."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.json import copy_json
from watchword.apiserver.serving.model import ApiError
from watchword.apiserver.serving.patch import apply_merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="remove"),
        pytest.param({"a": "b"}, {"x": None}, {"a": "b"}, id="remove nothing"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="list by text"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1, None]}, {"a": [1, None]}, id="lists are replaced whole"),
        pytest.param({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls of new objects vanish"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="present nulls stay"),
    ],
)
def test_apply_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    assert apply_merge_patch(document, patch) == expected


@pytest.mark.parametrize("patch", [None, [], "x", 1, True])
def test_a_patch_that_is_no_object_is_refused(patch: Any) -> None:
    with pytest.raises(ApiError) as refusal:
        apply_merge_patch({}, patch)

    assert refusal.value.code == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@settings(max_examples=60)
@given(document=OBJECTS, patch=OBJECTS)
def test_merging_twice_is_merging_once_and_leaves_the_patch_alone(document: Any, patch: Any) -> None:
    untouched = copy_json(patch)

    once = copy_json(apply_merge_patch(document, patch))

    assert apply_merge_patch(document, patch) == once
    assert patch == untouched
