"""When an object holds what is wanted, and what is missing when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.meta import Object
from watchword.runtime.diff import Comparison, choose_changes, current_values

NAMED_FIELDS, CONTAINS, EXACT_LISTS = Comparison


def an_object(spec: Any = None, **metadata: Any) -> Object:
    return {"metadata": {"name": "x", **metadata}, "spec": spec}


EVERY = (NAMED_FIELDS, CONTAINS, EXACT_LISTS)


@pytest.mark.parametrize(
    ("present", "wanted", "changes", "counts_for"),
    [
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, EVERY, id="another value"),
        pytest.param({}, {"a": 2}, {"a": 2}, EVERY, id="missing"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, {"a": [2, 1]}, EVERY, id="order of a list"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [1]}, EVERY, id="more in a list"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 3}}, {"a": {"b": 3}}, EVERY, id="inside"),
        pytest.param({"a": 1}, {"a": None}, {"a": None}, EVERY, id="wanted to be absent"),
        pytest.param({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}, EVERY, id="another shape"),
        pytest.param({"a": True}, {"a": 1}, {"a": 1}, (CONTAINS, EXACT_LISTS), id="true is not one"),
        pytest.param({"b": 2}, {}, {"b": None}, (NAMED_FIELDS,), id="a field that others added inside"),
        pytest.param({}, {"a": []}, {"a": []}, (NAMED_FIELDS,), id="an empty list that the server left out"),
        pytest.param({}, {"a": False}, {"a": False}, (NAMED_FIELDS,), id="a false that the server left out"),
        pytest.param(
            {"a": [{"n": 1, "default": 2}]},
            {"a": [{"n": 1}]},
            {"a": [{"n": 1}]},
            (NAMED_FIELDS, EXACT_LISTS),
            id="a field that others added inside a list",
        ),
    ],
)
def test_choose_changes(present: Object, wanted: Object, changes: Object, counts_for: tuple[Comparison, ...]) -> None:
    found = {kind: choose_changes(an_object(present), an_object(wanted), kind) for kind in EVERY}

    assert found == {kind: {"spec": changes} if kind in counts_for else None for kind in EVERY}


@pytest.mark.parametrize("comparison", EVERY)
def test_top_level_fields_that_are_not_wanted_stay(comparison: Comparison) -> None:
    present = {**an_object({"a": 1}), "status": {"phase": "Ready"}, "other": 1}

    assert choose_changes(present, an_object({"a": 1}), comparison) is None


@pytest.mark.parametrize("comparison", EVERY)
def test_owners_of_others_stay(comparison: Comparison) -> None:
    theirs, ours = {"uid": "theirs", "name": "a"}, {"uid": "ours", "name": "b"}
    present = an_object(ownerReferences=[theirs])

    changes = choose_changes(present, an_object(ownerReferences=[ours]), comparison)

    assert changes == {"metadata": {"ownerReferences": [theirs, ours]}}
    assert choose_changes(an_object(ownerReferences=[theirs, ours]), an_object(), comparison) is None


def test_owner_that_an_object_must_not_have_is_taken_off() -> None:
    present = an_object(ownerReferences=[{"uid": "theirs"}, {"uid": "ours"}])

    assert choose_changes(present, an_object(), without_owner="ours") == {
        "metadata": {"ownerReferences": [{"uid": "theirs"}]}
    }


def test_finalizers_of_others_stay() -> None:
    present, wanted = an_object(finalizers=["theirs"]), an_object(finalizers=["ours"])

    assert choose_changes(present, wanted) == {"metadata": {"finalizers": ["theirs", "ours"]}}


@pytest.mark.parametrize("comparison", EVERY)
def test_label_with_an_empty_value_is_missed(comparison: Comparison) -> None:
    assert choose_changes(an_object(), an_object(labels={"role": ""}), comparison) == {
        "metadata": {"labels": {"role": ""}}
    }


def test_labels_and_annotations_of_others_stay() -> None:
    present = an_object(labels={"theirs": "1", "ours": "old"}, annotations={"theirs": "1"})
    wanted = an_object(labels={"ours": "new"}, annotations={})

    assert choose_changes(present, wanted) == {"metadata": {"labels": {"ours": "new"}}}


VALUES = st.recursive(
    st.integers(1, 3) | st.text("ab", min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@pytest.mark.parametrize("comparison", EVERY)
@settings(max_examples=60)
@given(present=st.dictionaries(st.sampled_from("abc"), VALUES), wanted=st.dictionaries(st.sampled_from("abc"), VALUES))
def test_after_the_patch_nothing_differs(present: Object, wanted: Object, comparison: Comparison) -> None:
    changes = choose_changes(an_object(present), an_object(wanted), comparison) or {}
    patched = merged(an_object(present), changes)

    assert choose_changes(patched, an_object(wanted), comparison) is None


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
