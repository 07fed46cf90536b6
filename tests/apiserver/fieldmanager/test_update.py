"""A writer of a field becomes its manager; the rows were compared with kube-apiserver."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.fieldmanager.harness import SCHEMA, FieldManagerHarness, a_thing

from watchword.apiserver.serving.managed_fields import track_update
from watchword.apiserver.serving.model import ApiError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_creator_owns_everything_but_the_name(harness: FieldManagerHarness) -> None:
    harness.update(
        "creator",
        {
            "s": "1",
            "map": {"a": "1"},
            "items": [{"k": "x", "v": "1"}],
            "set": ["b"],
            "list": ["c"],
            "whole": {"p": "1"},
        },
        metadata={"labels": {"l": "1"}, "uid": "u", "generation": 1},
    )

    assert harness.owned() == {
        "creator!": {
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            "f:spec": {
                ".": {},
                "f:s": {},
                "f:map": {".": {}, "f:a": {}},
                "f:items": {".": {}, 'k:{"k":"x"}': {".": {}, "f:k": {}, "f:v": {}}},
                "f:set": {".": {}, 'v:"b"': {}},
                "f:list": {},
                "f:whole": {},
            },
        }
    }


def test_managed_fields_entry_has_manager_time_and_operation(harness: FieldManagerHarness) -> None:
    created = harness.update("", {"s": "1"})

    assert created["metadata"]["managedFields"] == [
        {
            "manager": "unknown",
            "operation": "Update",
            "apiVersion": "ex.com/v1",
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}, "f:s": {}}},
        }
    ]


def test_changed_field_changes_its_manager(harness: FieldManagerHarness) -> None:
    harness.update("one", {"s": "1", "t": "1"})
    harness.update("two", {"s": "1", "t": "2", "map": {"a": "1"}})

    assert harness.owned() == {
        "one!": {"f:spec": {".": {}, "f:s": {}}},
        "two!": {"f:spec": {"f:t": {}, "f:map": {".": {}, "f:a": {}}}},
    }


def test_removed_field_has_no_manager(harness: FieldManagerHarness) -> None:
    harness.update("one", {"s": "1", "t": "1"})
    harness.update("two", {"s": "1"})

    assert harness.owned() == {"one!": {"f:spec": {".": {}, "f:s": {}}}}


def test_unchanged_field_keeps_its_manager(harness: FieldManagerHarness) -> None:
    before = harness.update("one", {"s": "1"})["metadata"]["managedFields"]

    after = harness.update("two", {"s": "1"}, metadata={"resourceVersion": "7"})

    assert after["metadata"]["managedFields"] == before


def test_the_status_endpoint_owns_status_alone(harness: FieldManagerHarness) -> None:
    harness.update("one", {"s": "1"})
    harness.update("two", {"s": "changed"}, subresource="status", status={"phase": "Up"})

    entries = harness.entries()
    assert entries[1]["subresource"] == "status"
    assert harness.owned()["two!"] == {"f:status": {".": {}, "f:phase": {}}}


def test_too_many_updaters_become_ancient(harness: FieldManagerHarness) -> None:
    harness.update("first", {"s": "1"})
    for index in range(12):
        harness.update(f"m{index:02}", {"s": "1", "map": {f"k{i}": "1" for i in range(index + 1)}})

    owned = harness.owned()
    assert len(owned) == 10
    assert owned["ancient-changes!"]["f:spec"]["f:map"].keys() >= {"f:k0", "f:k1"}


@pytest.mark.parametrize("reset", [[], [{}]], ids=["empty list", "list of one empty entry"])
def test_owners_are_forgotten_on_request(harness: FieldManagerHarness, reset: Any) -> None:
    harness.update("one", {"s": "1"})

    harness.update("two", {"s": "2"}, metadata={"managedFields": reset})

    assert harness.owned() == {}


def test_an_untracked_object_stays_untracked(harness: FieldManagerHarness) -> None:
    harness.live = a_thing({"s": "1"}, uid="u")

    harness.update("one", {"s": "2"})

    assert harness.owned() == {}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(None, id="left out"),
        pytest.param([{"manager": "liar"}], id="malformed"),
        pytest.param("x", id="not a list"),
        pytest.param(
            [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"?": 1}}], id="no set"
        ),
    ],
)
def test_a_client_cannot_lose_the_owners_by_accident(harness: FieldManagerHarness, said: Any) -> None:
    harness.update("one", {"s": "1"})

    harness.update("two", {"s": "1", "t": "1"}, metadata={"managedFields": said})

    assert harness.owned()["one!"] == {"f:spec": {".": {}, "f:s": {}}}


def test_items_without_identity_leave_the_object_untracked(harness: FieldManagerHarness) -> None:
    harness.update("one", {"items": [{"v": "no key"}]})

    assert harness.owned() == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("stkv"), inner, max_size=3),
    max_leaves=6,
)
SPECS = st.dictionaries(st.sampled_from(["s", "map", "obj", "whole", "list", "set", "items", "any"]), JSON, max_size=4)


@settings(max_examples=60)
@given(old=SPECS, new=SPECS, said=JSON)
def test_tracking_never_fails(old: Any, new: Any, said: Any) -> None:
    before, after = a_thing(old), a_thing(new, managedFields=said)
    with contextlib.suppress(ApiError):
        track_update(None, before, SCHEMA, manager="one", api_version="v1", now=NOW)

    track_update(before, after, SCHEMA, manager="two", api_version="v1", now=NOW)

    assert after["spec"] == new


def test_defaults_of_an_empty_object_have_no_manager() -> None:
    created = a_thing({"s": "", "t": "1"})
    empty = {**a_thing({"s": ""}), "status": {}}

    track_update(None, created, SCHEMA, manager="one", api_version="v1", now=NOW, empty=empty)

    assert created["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:t": {}}}
