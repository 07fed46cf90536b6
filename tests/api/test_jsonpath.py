"""Paths of printer columns and of values that are reported back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.jsonpath import JsonPathError, find, locate

DOCUMENT = {
    "spec": {"replicas": 3, "list": ["a", "b"], "x.y/z": "dotted"},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "count": 5},
            {"type": "Other", "status": "False", "count": 1},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(".spec.replicas", [3], id="field"),
        pytest.param(".spec.nope.deeper", [], id="missing"),
        pytest.param(".spec.list[0]", ["a"], id="index"),
        pytest.param(".spec.list[-1]", ["b"], id="index from the end"),
        pytest.param(".spec.list[9]", [], id="index out of range"),
        pytest.param(".spec.list[*]", ["a", "b"], id="every item"),
        pytest.param(".spec['x.y/z']", ["dotted"], id="quoted"),
        pytest.param(r".spec.x\.y/z", ["dotted"], id="escaped dot"),
        pytest.param('.status.conditions[?(@.type=="Ready")].status', ["True"], id="filter"),
        pytest.param(".status.conditions[?(@.type=='Ready')].status", ["True"], id="filter in single quotes"),
        pytest.param(".status.conditions[?(@.type!='Ready')].type", ["Other"], id="negated filter"),
        pytest.param(".status.conditions[?(@.count>2)].type", ["Ready"], id="numeric filter"),
        pytest.param(".status.conditions[?(@.type>2)].type", [], id="filter across types"),
        pytest.param(".", [DOCUMENT], id="all of it"),
    ],
)
def test_find(path: str, found: list[Any]) -> None:
    assert find(DOCUMENT, path) == found


@pytest.mark.parametrize(
    ("path", "places"),
    [
        pytest.param(".spec.nope", [], id="nowhere"),
        pytest.param(".spec.replicas", [("spec", "replicas")], id="field"),
        pytest.param(".spec.list[-1]", [("spec", "list", 1)], id="index from the end, counted from the front"),
        pytest.param(
            ".status.conditions[?(@.type=='Other')].status", [("status", "conditions", 1, "status")], id="filter"
        ),
    ],
)
def test_locate(path: str, places: list[Any]) -> None:
    assert locate(DOCUMENT, path) == places


@pytest.mark.parametrize("path", ["", "spec", ".spec[", ".spec..x", ".a[?(@.b)]", "." + "a" * 2000])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(JsonPathError):
        find(DOCUMENT, path)


@settings(max_examples=80)
@given(st.text(".[]*?(@)='\"ab01\\ ", max_size=20))
def test_no_text_raises_anything_else(path: str) -> None:
    with contextlib.suppress(JsonPathError):
        find(DOCUMENT, path)
