"""Pruning drops exactly what the schema does not know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.json import copy_json
from watchword.apiserver.kinds.from_openapi import from_openapi
from watchword.apiserver.kinds.schema import Schema, prune

OBJECT = {"type": "object"}
STRING = {"type": "string"}
OPEN = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("openapi", "value", "kept", "paths"),
    [
        pytest.param({**OBJECT, "properties": {"a": STRING}}, {"a": "1"}, {"a": "1"}, [], id="nothing unknown"),
        pytest.param({**OBJECT, "properties": {"a": STRING}}, {"a": "1", "b": 2}, {"a": "1"}, ["b"], id="top field"),
        pytest.param(
            {**OBJECT, "properties": {"a": {"type": "array", "items": {**OBJECT, "properties": {"x": STRING}}}}},
            {"a": [{"x": "1"}, {"y": {"z": 1}}]},
            {"a": [{"x": "1"}, {}]},
            ["a[1].y"],
            id="inside a list",
        ),
        pytest.param(
            {**OBJECT, "additionalProperties": {**OBJECT, "properties": {"x": STRING}}},
            {"k": {"x": "1", "y": 1}},
            {"k": {"x": "1"}},
            ["k.y"],
            id="inside a map",
        ),
        pytest.param({**OBJECT, **OPEN}, {"a": {"b": 1}}, {"a": {"b": 1}}, [], id="unknown fields preserved"),
        pytest.param(
            {**OBJECT, **OPEN, "properties": {"a": {**OBJECT, "properties": {"x": STRING}}}},
            {"a": {"y": 1}, "b": 1},
            {"a": {}, "b": 1},
            ["a.y"],
            id="known field below preserved ones is still pruned",
        ),
        pytest.param(STRING, {"a": 1}, {}, ["a"], id="object where a string belongs"),
        pytest.param(OBJECT, [{"a": 1}, [{"b": 1}]], [{}, [{}]], ["[0].a", "[1][0].b"], id="list where none belongs"),
    ],
)
def test_prune(openapi: Any, value: Any, kept: Any, paths: list[str]) -> None:
    assert prune(value, from_openapi(openapi)) == paths
    assert value == kept


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def _fields(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[dict[str, Schema]]:
    return st.dictionaries(st.sampled_from("abc"), inner, max_size=3)


SCHEMAS = st.recursive(
    st.sampled_from([Schema("string"), Schema("integer"), Schema("any", preserve_unknown=True), Schema("object")]),
    lambda inner: (
        st.builds(lambda p, keep: Schema("object", properties=p, preserve_unknown=keep), _fields(inner), st.booleans())
        | st.builds(lambda below: Schema("object", additional=below), inner)
        | st.builds(lambda below: Schema("array", items=below), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(value=JSON, schema=SCHEMAS)
def test_pruning_twice_is_pruning_once(value: Any, schema: Schema) -> None:
    paths = prune(value, schema)
    once = copy_json(value)

    assert prune(value, schema) == []
    assert value == once
    assert paths == sorted(paths)


def test_many_unknown_fields_cost_no_more_than_they_are_many() -> None:
    value = {f"unknown-{index}": {"x": 1} for index in range(100_000)}

    assert len(prune(value, from_openapi({"type": "object", "properties": {}}))) == 100_000
