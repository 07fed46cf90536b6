"""Defaulting fills what is missing and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.json import copy_json
from watchword.apiserver.kinds.from_openapi import from_openapi
from watchword.apiserver.kinds.schema import Schema, apply_defaults

FIVE = {"type": "integer", "default": 5}
OPTIONAL = {"type": "integer", "default": 5, "nullable": True}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("openapi", "value", "expected"),
    [
        pytest.param(an_object(a=FIVE), {}, {"a": 5}, id="missing"),
        pytest.param(an_object(a=FIVE), {"a": 6}, {"a": 6}, id="present"),
        pytest.param(an_object(a=FIVE), {"a": None}, {"a": 5}, id="null is missing"),
        pytest.param(an_object(a=OPTIONAL), {"a": None}, {"a": None}, id="null allowed"),
        pytest.param(an_object(a={"type": "integer"}), {"a": None}, {}, id="null neither allowed nor replaceable"),
        pytest.param(an_object(a=an_object(b=FIVE)), {}, {}, id="no default through a missing parent"),
        pytest.param(an_object(a=an_object(b=FIVE)), {"a": {}}, {"a": {"b": 5}}, id="inside an existing parent"),
        pytest.param(an_object(a={**an_object(b=FIVE), "default": {}}), {}, {"a": {"b": 5}}, id="inside a default"),
        pytest.param(
            an_object(a={"type": "array", "items": an_object(b=FIVE)}),
            {"a": [{}, {"b": 1}]},
            {"a": [{"b": 5}, {"b": 1}]},
            id="inside a list",
        ),
        pytest.param({"type": "object", "additionalProperties": FIVE}, {"x": None}, {"x": 5}, id="null in a map"),
        pytest.param({"type": "array", "items": FIVE}, [None, 1], [5, 1], id="null in a list"),
    ],
)
def test_apply_defaults(openapi: Any, value: Any, expected: Any) -> None:
    apply_defaults(value, from_openapi(openapi))

    assert value == expected


def test_a_default_is_copied_for_every_object() -> None:
    schema = from_openapi(an_object(a={**an_object(b=FIVE), "default": {}}))
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}

    apply_defaults(one, schema)
    one["a"]["b"] = 1
    apply_defaults(other, schema)

    assert other == {"a": {"b": 5}}


VALUES = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
SCHEMAS = st.recursive(
    st.builds(
        lambda default, nullable: Schema(
            "integer", default=default, has_default=default is not None, nullable=nullable
        ),
        st.none() | st.just(7),
        st.booleans(),
    ),
    lambda inner: (
        st.builds(
            lambda p, d: Schema("object", properties=p, default={} if d else None, has_default=d),
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.booleans(),
        )
        | st.builds(lambda below: Schema("object", additional=below), inner)
        | st.builds(lambda below: Schema("array", items=below), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(value=VALUES, schema=SCHEMAS)
def test_defaulting_twice_is_defaulting_once(value: Any, schema: Schema) -> None:
    apply_defaults(value, schema)
    once = copy_json(value)

    apply_defaults(value, schema)

    assert value == once
