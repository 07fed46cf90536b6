"""Validation errors equal those of kube-apiserver; each row was compared with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.json import copy_json
from watchword.apiserver.kinds.from_openapi import from_openapi
from watchword.apiserver.kinds.schema_validation import validate
from watchword.apiserver.serving.model import FieldError

TEXT = {"type": "string"}
X_AND_Y = {"type": "object", "properties": {"x": TEXT, "y": TEXT}}
NEED_X, NEED_Y = {"required": ["x"]}, {"required": ["y"]}
PAIRS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": TEXT, "v": {"type": "integer", "maximum": 5}}},
}
SPEC: dict[str, Any] = {
    "text": TEXT,
    "count": {"type": "integer", "minimum": 1, "maximum": 10},
    "ratio": {"type": "number", "multipleOf": 0.5, "maximum": 2.5, "exclusiveMaximum": True},
    "flag": {"type": "boolean"},
    "colour": {"type": "string", "enum": ["red", "blue"]},
    "level": {"type": "integer", "enum": [1, 2]},
    "pattern": {"type": "string", "pattern": "^a+$"},
    "short": {"type": "string", "minLength": 1, "maxLength": 2},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": TEXT},
    "map": {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "integer"}},
    "when": {"type": "string", "format": "date-time"},
    "address": {"type": "string", "format": "ipv4"},
    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "maybe": {"type": "string", "nullable": True},
    "one": {**X_AND_Y, "oneOf": [NEED_X, NEED_Y]},
    "any": {**X_AND_Y, "anyOf": [NEED_X, NEED_Y]},
    "all": {**X_AND_Y, "allOf": [NEED_X, {"properties": {"y": {"enum": ["q"]}}}]},
    "not": {"type": "string", "not": {"enum": ["bad"]}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "pairs": PAIRS,
    "needs": {"type": "object", "required": ["x"], "properties": {"x": TEXT}},
    "inner": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
SCHEMA = from_openapi({"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}})


ONLY_ONE = '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf).'


def errors_of(spec: Any, old: Any = None) -> list[str]:
    found = validate({"spec": spec}, SCHEMA) if old is None else validate({"spec": spec}, SCHEMA, old={"spec": old})
    return [str(error) for error in found]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"text": 5},
            ['spec.text: Invalid value: "integer": spec.text in body must be of type string: "integer"'],
            id="wrong type",
        ),
        pytest.param(
            {"count": 1.5},
            ['spec.count: Invalid value: "number": spec.count in body must be of type integer: "number"'],
            id="fraction for an integer",
        ),
        pytest.param(
            {"map": {"k": 1e300}},
            ['spec.map.k: Invalid value: "number": spec.map.k in body must be of type integer: "number"'],
            id="integer beyond those that a number holds exactly",
        ),
        pytest.param(
            {"count": True},
            ['spec.count: Invalid value: "boolean": spec.count in body must be of type integer: "boolean"'],
            id="true is no integer",
        ),
        pytest.param(
            {"count": 11},
            ["spec.count: Invalid value: 11: spec.count in body should be less than or equal to 10"],
            id="above the maximum",
        ),
        pytest.param(
            {"count": 0},
            ["spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"],
            id="below the minimum",
        ),
        pytest.param(
            {"ratio": 0.3},
            ["spec.ratio: Invalid value: 0.3: spec.ratio in body should be a multiple of 0.5"],
            id="no multiple",
        ),
        pytest.param(
            {"ratio": 2.5},
            ["spec.ratio: Invalid value: 2.5: spec.ratio in body should be less than 2.5"],
            id="at an exclusive maximum",
        ),
        pytest.param(
            {"colour": "x"},
            ['spec.colour: Unsupported value: "x": supported values: "red", "blue"'],
            id="not in the enum",
        ),
        pytest.param(
            {"level": 3}, ['spec.level: Unsupported value: 3: supported values: "1", "2"'], id="not in an integer enum"
        ),
        pytest.param(
            {"pattern": "b"},
            ["spec.pattern: Invalid value: \"b\": spec.pattern in body should match '^a+$'"],
            id="pattern",
        ),
        pytest.param(
            {"pattern": "a\n"},
            ["spec.pattern: Invalid value: \"a\\n\": spec.pattern in body should match '^a+$'"],
            id="a newline does not end the text",
        ),
        pytest.param(
            {"short": ""},
            ['spec.short: Invalid value: "": spec.short in body should be at least 1 chars long'],
            id="too short",
        ),
        pytest.param({"short": "abc"}, ["spec.short: Too long: may not be more than 2 bytes"], id="too long"),
        pytest.param(
            {"list": []},
            ["spec.list: Invalid value: 0: spec.list in body should have at least 1 items"],
            id="few items",
        ),
        pytest.param({"list": ["1", "2", "3"]}, ["spec.list: Too many: 3: must have at most 2 items"], id="many items"),
        pytest.param(
            {"list": [1]},
            ['spec.list[0]: Invalid value: "integer": spec.list[0] in body must be of type string: "integer"'],
            id="wrong item",
        ),
        pytest.param(
            {"map": {}},
            ["spec.map: Invalid value: 0: spec.map in body should have at least 1 properties"],
            id="few properties",
        ),
        pytest.param(
            {"map": {"a": 1, "b": 2}}, ["spec.map: Too many: 2: must have at most 1 item"], id="many properties"
        ),
        pytest.param(
            {"map": {"a": "x"}},
            ['spec.map.a: Invalid value: "string": spec.map.a in body must be of type integer: "string"'],
            id="wrong map value",
        ),
        pytest.param(
            {"when": "no"},
            ['spec.when: Invalid value: "no": spec.when in body must be of type date-time: "no"'],
            id="no date",
        ),
        pytest.param(
            {"address": "1.2.3"},
            ['spec.address: Invalid value: "1.2.3": spec.address in body must be of type ipv4: "1.2.3"'],
            id="no address",
        ),
        pytest.param(
            {"list": [None]},
            ['spec.list[0]: Invalid value: "null": spec.list[0] in body must be of type string: "null"'],
            id="null",
        ),
        pytest.param(
            {"one": {}},
            [
                f"{ONLY_ONE} Found none valid",
                "spec.one.x: Required value",
            ],
            id="oneOf none",
        ),
        pytest.param(
            {"one": {"x": "1", "y": "1"}},
            [f"{ONLY_ONE} Found 2 valid alternatives"],
            id="oneOf two",
        ),
        pytest.param(
            {"any": {}},
            [
                '<nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)',
                "spec.any.x: Required value",
            ],
            id="anyOf",
        ),
        pytest.param(
            {"all": {"x": "1", "y": "1"}},
            [
                'spec.all.y: Unsupported value: "1": supported values: "q"',
                '<nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)',
            ],
            id="allOf",
        ),
        pytest.param(
            {"not": "bad"}, ['<nil>: Invalid value: "": "spec.not" must not validate the schema (not)'], id="not"
        ),
        pytest.param({"set": ["a", "b", "a", "a"]}, ['spec.set[2]: Duplicate value: "a"'], id="set"),
        pytest.param({"pairs": [{"k": "a"}, {"k": "a"}]}, ['spec.pairs[1]: Duplicate value: {"k":"a"}'], id="list map"),
        pytest.param({"needs": {}}, ["spec.needs.x: Required value"], id="required"),
        pytest.param(
            {"inner": {}},
            ["spec.inner.apiVersion: Required value", "spec.inner.kind: Required value"],
            id="embedded resource",
        ),
    ],
)
def test_schema_violation_is_reported(spec: Any, expected: list[str]) -> None:
    assert errors_of(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"count": 2.0}, id="whole float for an integer"),
        pytest.param({"ratio": 2}, id="integer for a number"),
        pytest.param({"when": "2020-01-01T00:00:00.5+02:00"}, id="date"),
        pytest.param({"port": 1}, id="int-or-string, int"),
        pytest.param({"port": "http"}, id="int-or-string, string"),
        pytest.param({"maybe": None}, id="nullable"),
        pytest.param({"one": {"x": "1"}, "any": {"x": "1", "y": "2"}, "all": {"x": "1", "y": "q"}}, id="junctors"),
        pytest.param({"inner": {"apiVersion": "v1", "kind": "Pod", "more": 1}}, id="embedded resource"),
    ],
)
def test_what_fits_the_schema_passes(spec: Any) -> None:
    assert errors_of(spec) == []


@pytest.mark.parametrize(
    ("old", "new", "tolerated"),
    [
        pytest.param({"count": 11}, {"count": 11, "text": "x"}, True, id="unchanged"),
        pytest.param({"count": 11}, {"count": 12}, False, id="changed, still wrong"),
        pytest.param(
            {"pairs": [{"k": "a", "v": 9}]}, {"pairs": [{"k": "b"}, {"k": "a", "v": 9}]}, True, id="moved item"
        ),
        pytest.param({"list": ["1", "2", "3"]}, {"list": ["1", "2", "3"]}, True, id="unchanged list"),
        pytest.param({"set": ["a", "a"]}, {"set": ["a", "a", "b"]}, True, id="duplicates that were there before"),
        pytest.param({"set": ["a"]}, {"set": ["a", "a"]}, False, id="new duplicates"),
    ],
)
def test_an_update_tolerates_what_was_wrong_and_did_not_change(old: Any, new: Any, tolerated: bool) -> None:  # noqa: FBT001 - a table column
    assert (errors_of(new, old) == []) is tolerated


def test_number_of_reported_errors_is_bounded() -> None:
    many = {"list": [1] * 100_000, "set": ["a"] * 100_000}

    assert 0 < len(errors_of(many)) < 1_100


def test_what_is_wrong_is_found_behind_much_that_is_tolerated() -> None:
    old = {"list": [1] * 5_000}

    assert errors_of({**old, "count": 11}, old) == [
        "spec.count: Invalid value: 11: spec.count in body should be less than or equal to 10"
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SPEC, "k", "x"]), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=80)
@given(spec=JSON, old=JSON)
def test_no_object_makes_validation_fail(spec: Any, old: Any) -> None:
    before = copy_json(spec)

    found = validate({"spec": spec}, SCHEMA, old={"spec": old})

    assert all(isinstance(error, FieldError) for error in found)
    assert spec == before
