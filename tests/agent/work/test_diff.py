"""When an object holds what is wanted, and what is missing when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.agent.work.diff import choose_manifest_patch, current_values
from watchword.api.meta import Object


def an_object(spec: Any = None, **metadata: Any) -> Object:
    return {"metadata": {"name": "x", **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("present", "wanted", "changes"),
    [
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="another value"),
        pytest.param({}, {"a": 2}, {"a": 2}, id="missing"),
        pytest.param({"a": True}, {"a": 1}, {"a": 1}, id="true is not one"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, {"a": [2, 1]}, id="order of a list"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, id="more in a list"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3}}, id="inside, and nothing else"),
        pytest.param({"a": 1}, {"a": None}, {"a": None}, id="wanted to be absent"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="another shape"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, None, id="what is not named stays"),
        pytest.param({}, {"a": False, "b": 0, "c": "", "d": {}, "e": [], "f": None}, None, id="empty is left out"),
        pytest.param({"a": [{"n": 1, "default": 2}]}, {"a": [{"n": 1}]}, None, id="defaults inside lists"),
    ],
)
def test_choose_changes(present: Object, wanted: Object, changes: Object | None) -> None:
    expected = None if changes is None else {"spec": changes}
    assert choose_manifest_patch(an_object(present), an_object(wanted)) == expected


def test_what_was_added_inside_a_list_counts_when_looking_exactly() -> None:
    present, wanted = an_object({"rules": [{"verbs": ["get"], "added": 1}]}), an_object({"rules": [{"verbs": ["get"]}]})

    assert choose_manifest_patch(present, wanted) is None
    assert choose_manifest_patch(present, wanted, strict=True) == {"spec": {"rules": [{"verbs": ["get"]}]}}


def test_labels_and_annotations_of_others_stay() -> None:
    present = an_object(labels={"theirs": "1", "ours": "old"}, annotations={"theirs": "1"})
    wanted = an_object(labels={"ours": "new"}, annotations={})

    assert choose_manifest_patch(present, wanted) == {"metadata": {"labels": {"ours": "new"}}}


VALUES = st.recursive(
    st.integers(1, 3) | st.text("ab", min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_after_the_patch_nothing_differs(present: Object, wanted: Object) -> None:
    changes = choose_manifest_patch(an_object(present), an_object(wanted), strict=True) or {}
    patched = merged(an_object(present), changes)

    assert choose_manifest_patch(patched, an_object(wanted), strict=True) is None


def merged(document: Any, patch: Any) -> Any:
    """Apply a merge patch as RFC 7396 says."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def test_an_excerpt_shows_what_a_patch_would_replace() -> None:
    present = {"spec": {"a": "old", "b": "other", "list": [1]}, "rest": 1}

    assert current_values(present, {"spec": {"a": "new", "list": [2]}}) == {"spec": {"a": "old", "list": [1]}}
