"""Rules in CEL that a schema holds are enforced."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.apiserver.kinds.from_openapi import from_openapi
from watchword.apiserver.kinds.schema_validation import validate

RANGE = {
    "type": "object",
    "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
    "x-kubernetes-validations": [
        {"rule": "self.min <= self.max", "message": "min must not exceed max"},
        {"rule": "self.min != 7"},
        {"rule": "self.min != 8", "messageExpression": "'got ' + string(self.min)", "reason": "FieldValueForbidden"},
    ],
}
FIXED = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}
RULES_WAIT = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
SCHEMA = from_openapi({"type": "object", "properties": {"range": RANGE, "fixed": FIXED, "text": {"type": "string"}}})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"range": {"min": 1, "max": 2}}, [], id="holds"),
        pytest.param({"range": {"min": 3, "max": 2}}, ["range: Invalid value: min must not exceed max"], id="message"),
        pytest.param({"range": {"min": 7, "max": 9}}, ["range: Invalid value: failed rule: self.min != 7"], id="rule"),
        pytest.param({"range": {"min": 8, "max": 9}}, ["range: Forbidden: got 8"], id="message expression"),
        pytest.param(
            {"range": {"min": 1}},
            ['range: Invalid value: "object": no such key: max evaluating rule: min must not exceed max'],
            id="missing field",
        ),
        pytest.param({"fixed": "a"}, [], id="transition rule without a past"),
        pytest.param(
            {"range": {"min": 3, "max": 2}, "text": 1},
            [
                'text: Invalid value: "integer": text in body must be of type string: "integer"',
                RULES_WAIT,
            ],
            id="rules wait until the types are right",
        ),
    ],
)
def test_rules_of_a_schema(value: Any, expected: list[str]) -> None:
    assert [str(error) for error in validate(value, SCHEMA)] == expected


def test_a_transition_rule_sees_the_past() -> None:
    assert [str(error) for error in validate({"fixed": "b"}, SCHEMA, old={"fixed": "a"})] == [
        'fixed: Invalid value: "b": is immutable'
    ]


def test_a_rule_that_was_broken_before_is_tolerated_while_nothing_changes() -> None:
    broken = {"range": {"min": 3, "max": 2}}

    assert validate({**broken, "text": "new"}, SCHEMA, old=broken) == []


def test_optional_past_is_absent_for_a_new_value() -> None:
    rule = {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0", "optionalOldSelf": True}
    number = {"type": "integer", "x-kubernetes-validations": [rule]}
    schema = from_openapi({"type": "object", "properties": {"n": number}})

    assert validate({"n": 0}, schema) == []
    assert len(validate({"n": 1}, schema)) == 1
    assert validate({"n": 5}, schema, old={"n": 4}) == []
    assert len(validate({"n": 3}, schema, old={"n": 4})) == 1


def test_rule_that_cannot_be_compiled_is_passed_over() -> None:
    schema = from_openapi({"type": "object", "x-kubernetes-validations": [{"rule": "frobnicate(self)"}]})

    assert validate({}, schema) == []
