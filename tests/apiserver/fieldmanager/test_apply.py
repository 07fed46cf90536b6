"""Server-side apply: ownership, conflicts, letting go. The rows were compared with the reference server."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.fieldmanager.harness import SCHEMA, FieldManagerHarness, a_thing

from watchword.api.json import copy_json
from watchword.apiserver.serving.apply import LAST_APPLIED, ApplyConflict, apply
from watchword.apiserver.serving.model import ApiError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_applier_owns_what_it_states(harness: FieldManagerHarness) -> None:
    harness.apply(
        "one", {"s": "1", "obj": {"x": "1"}, "items": [{"k": "a"}], "set": ["p"], "map": {}}, labels={"l": "1"}
    )

    assert harness.owned() == {
        "one": {
            "f:metadata": {"f:labels": {"f:l": {}}},
            "f:spec": {
                "f:s": {},
                "f:obj": {"f:x": {}},
                "f:items": {'k:{"k":"a"}': {".": {}, "f:k": {}}},
                "f:set": {'v:"p"': {}},
                "f:map": {},
            },
        }
    }


def test_the_same_value_is_owned_by_both(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1", "t": "1"})
    harness.apply("two", {"s": "1"})

    assert harness.owned() == {"one": {"f:spec": {"f:s": {}, "f:t": {}}}, "two": {"f:spec": {"f:s": {}}}}
    entries = harness.entries()
    assert [entry.get("time") for entry in entries] == [None, "2026-01-01T00:00:01Z"]


def test_another_value_is_a_conflict(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1"})

    with pytest.raises(ApplyConflict) as refusal:
        harness.apply("two", {"s": "2"})

    assert refusal.value.message == 'Apply failed with 1 conflict: conflict with "one": .spec.s'
    assert refusal.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.s"}]
    }


def test_several_conflicts_are_listed_by_manager(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1", "items": [{"k": "a", "v": "1"}]})
    harness.update("upd", {"s": "1", "items": [{"k": "a", "v": "1"}], "t": "1"})

    with pytest.raises(ApplyConflict) as refusal:
        harness.apply("two", {"s": "2", "t": "2", "items": [{"k": "a", "v": "2"}]})

    assert refusal.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.s\n- .spec.items[k="a"].v\n'
        'conflicts with "upd" using ex.com/v1:\n- .spec.t'
    )


def test_force_takes_the_field(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1", "t": "1"})
    result = harness.apply("two", {"s": "2"}, force=True)

    assert result["spec"] == {"s": "2", "t": "1"}
    assert harness.owned() == {"one": {"f:spec": {"f:t": {}}}, "two": {"f:spec": {"f:s": {}}}}


def test_what_is_no_longer_stated_is_removed(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1", "t": "1", "items": [{"k": "a"}, {"k": "b"}], "map": {"a": "1"}}, labels={"l": "1"})
    result = harness.apply("one", {"s": "1", "items": [{"k": "b"}]})

    assert result["spec"] == {"s": "1", "items": [{"k": "b"}]}
    assert result["metadata"]["name"] == "a"
    assert "labels" not in result["metadata"]


def test_what_another_owns_stays(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1", "items": [{"k": "a", "v": "1"}]})
    harness.apply("two", {"s": "1", "items": [{"k": "a"}]})
    result = harness.apply("one", {})

    assert result["spec"] == {"s": "1", "items": [{"k": "a"}]}


def test_field_of_an_update_or_without_manager_stays(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"s": "1", "obj": {"x": "1"}})
    harness.update("upd", {"s": "1", "obj": {"x": "1", "y": "1"}})
    result = harness.apply("one", {"s": "1"})

    assert result["spec"] == {"s": "1", "obj": {"y": "1"}}


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        pytest.param("ab", "bc", "abc", id="new item last"),
        pytest.param("xy", "zx", "zxy", id="new item first"),
        pytest.param("abc", "ca", "bca", id="applied order wins"),
        pytest.param("abcd", "db", "acdb", id="others keep their neighbours"),
    ],
)
def test_order_of_merged_lists(harness: FieldManagerHarness, live: str, applied: str, merged: str) -> None:
    harness.apply("one", {"set": list(live)})
    result = harness.apply("two", {"set": list(applied)})

    assert result["spec"]["set"] == list(merged)


def test_an_atomic_value_is_replaced_as_one(harness: FieldManagerHarness) -> None:
    harness.apply("one", {"whole": {"p": "1"}, "list": ["a"]})
    result = harness.apply("two", {"whole": {"q": "1"}, "list": ["b"]}, force=True)

    assert result["spec"] == {"whole": {"q": "1"}, "list": ["b"]}
    assert "one" not in harness.owned()


def test_the_first_apply_finds_an_owner_for_what_is_there(harness: FieldManagerHarness) -> None:
    harness.live = a_thing({"s": "1"}, uid="u")
    harness.apply("one", {"t": "1"})

    assert harness.owned() == {"one": {"f:spec": {"f:t": {}}}, "before-first-apply!": {"f:spec": {".": {}, "f:s": {}}}}


def test_applying_again_changes_nothing_not_even_the_time(harness: FieldManagerHarness) -> None:
    first = copy_json(harness.apply("one", {"s": "1", "set": ["a"]}))

    assert harness.apply("one", {"s": "1", "set": ["a"]}) == first


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"nope": 1}, ".spec.nope: field not declared in schema", id="unknown field"),
        pytest.param({"s": 5}, ".spec.s: expected string, got &value.valueUnstructured{Value:5}", id="wrong type"),
        pytest.param({"obj": "x"}, ".spec.obj: expected map, got &{x}", id="text for an object"),
        pytest.param({"set": "x"}, ".spec.set: expected list, got &{x}", id="text for a list"),
        pytest.param({"items": [{"k": "a"}, {"k": "a"}]}, '.spec.items: duplicate entries for key [k="a"]', id="twice"),
        pytest.param({"items": [{"v": "1"}]}, ".spec.items: element 0: associative list with keys has", id="no key"),
        pytest.param({"set": [None]}, ".spec.set: element 0: associative list without keys has", id="null in a set"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(harness: FieldManagerHarness, spec: Any, told: str) -> None:
    with pytest.raises(ApiError) as refusal:
        harness.apply("one", spec)

    assert refusal.value.code == 500
    assert f"failed to create typed patch object (/a; ex.com/v1, Kind=Thing): {told}" in refusal.value.message


def test_a_configuration_may_not_name_owners(harness: FieldManagerHarness) -> None:
    with pytest.raises(ApiError) as refusal:
        harness.apply("one", {}, managedFields=[])

    assert (refusal.value.code, refusal.value.message) == (400, "metadata.managedFields must be nil")


def test_kubectl_takes_over_from_its_client_side_self(harness: FieldManagerHarness) -> None:
    remembered = orjson.dumps(a_thing({"s": "1"})).decode()
    harness.update("kubectl-client-side-apply", {"s": "1"}, metadata={"annotations": {LAST_APPLIED: remembered}})

    with pytest.raises(ApplyConflict):
        harness.apply("other", {"s": "2"})
    result = harness.apply("kubectl", {"s": "2"})

    assert result["spec"] == {"s": "2"}
    assert orjson.loads(result["metadata"]["annotations"][LAST_APPLIED])["spec"] == {"s": "2"}


def test_kubectl_does_not_take_what_changed_since(harness: FieldManagerHarness) -> None:
    remembered = orjson.dumps(a_thing({"s": "0"})).decode()
    harness.update("kubectl-edit", {"s": "1"}, metadata={"annotations": {LAST_APPLIED: remembered}})

    with pytest.raises(ApplyConflict):
        harness.apply("kubectl", {"s": "2"})


# Empty lists with identities state nothing, in the reference server too.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "map": st.dictionaries(st.sampled_from("ij"), st.sampled_from("ab")),
    "set": st.lists(st.sampled_from("pqr"), unique=True, min_size=1),
    "items": st.lists(st.sampled_from("xyz"), unique=True, min_size=1).map(lambda keys: [{"k": key} for key in keys]),
    "whole": st.dictionaries(st.sampled_from("pq"), st.sampled_from("ab")),
}
SPECS = st.fixed_dictionaries({"s": st.sampled_from("ab")}, optional=VALUES)


@settings(max_examples=50)
@given(specs=st.lists(st.tuples(st.sampled_from(["one", "two"]), SPECS), min_size=1, max_size=4))
def test_forced_apply_always_yields_what_was_stated(specs: list[tuple[str, Any]]) -> None:
    harness = FieldManagerHarness()
    for manager, spec in specs:
        result = harness.apply(manager, spec, force=True)["spec"]
        for key, value in spec.items():
            if isinstance(value, list):
                assert [item for item in result[key] if item in value] == value
            elif isinstance(value, dict):
                assert result[key].items() >= value.items()
            else:
                assert result[key] == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["s", "k", "set", "items"]), inner),
    max_leaves=6,
)


@settings(max_examples=60)
@given(live=st.dictionaries(st.sampled_from(["s", "set", "items", "any"]), JSON), applied=JSON)
def test_no_configuration_raises_anything_but_a_refusal(live: Any, applied: Any) -> None:
    with contextlib.suppress(ApiError):
        apply(a_thing(live, uid="u"), a_thing(applied), SCHEMA, manager="m", force=True, now=NOW)
