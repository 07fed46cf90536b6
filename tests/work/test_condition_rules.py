"""Conditions that a work requests: computed by expressions, per object and for the work."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.conditions import Condition, Status
from watchword.api.meta import Object, ObjectKey, ObjectRef
from watchword.api.resources import DEPLOYMENTS, SECRETS
from watchword.work.feedback import aggregate_conditions, decide_rule_conditions

DEPLOYMENT: Object = {
    "metadata": {"name": "web"},
    "spec": {"replicas": 3},
    "status": {"readyReplicas": 3, "conditions": [{"type": "Available", "status": "True"}]},
}
TARGET = ObjectRef(DEPLOYMENTS, ObjectKey("ns", "web"))


def a_rule(*expressions: str, **fields: Any) -> Object:
    """Return a rule in CEL for the condition `Done`."""
    return {"condition": "Done", "type": "CEL", "celExpressions": list(expressions), **fields}


def judge(rule: Object, obj: Object | None = DEPLOYMENT, target: ObjectRef = TARGET) -> Condition:
    """Return the one condition that a rule leads to."""
    (condition,) = decide_rule_conditions(obj, [rule], target)
    return condition


@pytest.mark.parametrize(
    ("expressions", "status", "reason"),
    [
        pytest.param(["object.status.x == 1"], "False", "ConditionRuleExpressionError", id="no such field"),
        pytest.param(["object.spec.replicas"], "False", "ConditionRuleExpressionError", id="not a boolean"),
        pytest.param(["self.a == 1"], "False", "ConditionRuleExpressionError", id="a variable of schemas"),
        pytest.param(["result"], "False", "ConditionRuleExpressionError", id="a variable of messages"),
        pytest.param(["("], "False", "ConditionRuleExpressionError", id="no expression"),
        pytest.param([], "False", "ConditionRuleExpressionError", id="nothing"),
        pytest.param(["true"] * 33, "False", "ConditionRuleExpressionError", id="far too many"),
        pytest.param(["true", "false", "object.x"], "False", "ConditionRuleEvaluated", id="the first no decides"),
        pytest.param(
            ["object.status.readyReplicas == object.spec.replicas"], "True", "ConditionRuleEvaluated", id="yes"
        ),
        pytest.param(["true", "hasConditions(object.status)"], "True", "ConditionRuleEvaluated", id="all of them"),
        pytest.param(["hasConditions(object.spec)"], "False", "ConditionRuleEvaluated", id="no conditions there"),
        pytest.param(["hasConditions(1)"], "False", "ConditionRuleEvaluated", id="nothing to have conditions"),
    ],
)
def test_decide_expressions(expressions: list[str], status: Status, reason: str) -> None:
    said = judge(a_rule(*expressions))

    assert (said.status, said.reason) == (status, reason)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "deployments.apps ns/web is Done", id="the usual words"),
        pytest.param({"message": "fine"}, "fine", id="the rule's own words"),
        pytest.param({"message": "fine", "messageExpression": "''"}, "fine", id="nothing computed"),
        pytest.param(
            {"messageExpression": "string(object.spec.replicas) + (result ? ' up' : '')"}, "3 up", id="computed"
        ),
        pytest.param({"message": "fine", "messageExpression": "1"}, "fine", id="computed and no text"),
        pytest.param(
            {"message": "fine", "messageExpression": "object.x"},
            "fine (its message cannot be computed: no such key: x)",
            id="not computable",
        ),
    ],
)
def test_choose_message(fields: Object, message: str) -> None:
    assert judge(a_rule("true", **fields)).message == message


def test_sensitive_value_does_not_print_its_content() -> None:
    secret = {"metadata": {"name": "s"}, "type": "Opaque", "data": {"password": "aHVudGVyMg=="}}
    target = ObjectRef(SECRETS, ObjectKey("ns", "s"))

    asked = judge(a_rule("object.data.password.startsWith('a')"), secret, target)
    told = judge(a_rule("true", messageExpression="object.data.password"), secret, target)

    assert (asked.status, asked.reason) == ("False", "ConditionRuleExpressionError")
    assert "aHVudGVyMg" not in asked.message + told.message


def test_absent_object_is_not_validated() -> None:
    assert judge(a_rule("true"), None).status == "Unknown"


@pytest.mark.parametrize(
    ("type_", "statuses", "expected"),
    [
        pytest.param("Done", ("True", "False", "Unknown"), "False", id="one no"),
        pytest.param("Done", ("True", "Unknown"), "Unknown", id="one is unknown"),
        pytest.param("Done", ("True", "True"), "True", id="all"),
        pytest.param("Progressing", ("True", "False", "Unknown"), "True", id="one progresses"),
        pytest.param("Progressing", ("False", "Unknown"), "Unknown", id="one may progress"),
        pytest.param("Progressing", ("False", "False"), "False", id="none progresses"),
    ],
)
def test_aggregate(type_: str, statuses: tuple[Status, ...], expected: Status) -> None:
    (said,) = aggregate_conditions(Condition(type_, status, "ConditionRuleEvaluated", "m") for status in statuses)

    assert (said.status, said.reason) == (expected, "ConditionRulesAggregated")
