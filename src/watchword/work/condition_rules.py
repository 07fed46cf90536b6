"""Judges the conditions that a work asks to be computed from its objects, completion above all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from watchword.api.conditions import Condition, is_true
from watchword.api.lazy_function import LazyFunction
from watchword.api.meta import Object, ObjectRef
from watchword.api.names import ConditionType
from watchword.work.feedback import without_secrets

_EXPRESSIONS = "watchword.work.rule_expressions"
evaluate_expressions: Callable[[Object, Iterable[Any]], ExpressionResult] = LazyFunction(
    _EXPRESSIONS, "evaluate_expressions"
)
compute_message: Callable[[str, Mapping[str, Any], str], str] = LazyFunction(_EXPRESSIONS, "compute_message")

EVALUATED = "ConditionRuleEvaluated"
INVALID = "ConditionRuleInvalid"
EXPRESSION_ERROR = "ConditionRuleExpressionError"
CEL = "CEL"
MAX_MESSAGE_LENGTH = 1024
AGGREGATED = "ConditionRulesAggregated"
RESERVED = frozenset(
    {
        ConditionType.WORK_APPLIED,
        ConditionType.WORK_AVAILABLE,
        ConditionType.STATUS_FEEDBACK_SYNCED,
        ConditionType.DELETING,
        ConditionType.LEFTOVERS_REMOVED,
    }
)
_TYPE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,98}[A-Za-z0-9])?", re.ASCII)


def _job_finished(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _pod_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


WELL_KNOWN_CONDITIONS: dict[tuple[str, str, str], Callable[[Object], bool]] = {
    ("batch", "jobs", ConditionType.WORK_COMPLETE): _job_finished,
    ("", "pods", ConditionType.WORK_COMPLETE): _pod_finished,
}
"""What is known to be meant by a condition of a kind."""


def decide_rule_conditions(
    obj: Object | None, rules: Iterable[Mapping[str, Any]], target: ObjectRef
) -> list[Condition]:
    """Return one condition for each rule; a rule that cannot be judged says so in its condition."""
    judged = {
        condition.type: condition
        for rule in rules
        if (condition := _decide_rule_condition(obj, rule, target)) is not None
    }
    return list(judged.values())


def _decide_rule_condition(obj: Object | None, rule: Mapping[str, Any], target: ObjectRef) -> Condition | None:
    type_ = str(rule.get("condition") or "")
    if not _TYPE.fullmatch(type_) or type_ in RESERVED:
        return None  # there is no place where it could be said
    objection = _validate_rule(rule, type_, target)
    if objection:
        return Condition.unknown(type_, INVALID, objection)
    if obj is None:
        return Condition.unknown(type_, EVALUATED, "the object is not there")
    visible = without_secrets(obj, target)
    result = _evaluate(visible, rule, type_, target)
    if result.trouble:
        return Condition.false(type_, EXPRESSION_ERROR, result.trouble[:MAX_MESSAGE_LENGTH])
    usual = f"{target} is {'' if result.holds else 'not '}{type_}"
    message = choose_rule_message(visible, rule, holds=result.holds, otherwise=usual)[:MAX_MESSAGE_LENGTH]
    if result.holds:
        return Condition.true(type_, EVALUATED, message)
    return Condition.false(type_, EVALUATED, message)


def _validate_rule(rule: Mapping[str, Any], type_: str, target: ObjectRef) -> str:
    """Return why a rule can never be judged; empty when it can."""
    if rule.get("type") == CEL:
        return ""
    if rule.get("type") != "WellKnownConditions":
        return f"rules of type {str(rule.get('type'))[:40]} are not supported: use CEL or WellKnownConditions"
    if (target.resource.group, target.resource.plural, type_) not in WELL_KNOWN_CONDITIONS:
        return f"nothing is known about the condition {type_} of {target.resource.group_resource}: use CEL"
    return ""


def _evaluate(obj: Object, rule: Mapping[str, Any], type_: str, target: ObjectRef) -> ExpressionResult:
    if rule.get("type") == CEL:
        return evaluate_expressions(obj, rule.get("celExpressions") or ())
    return ExpressionResult(WELL_KNOWN_CONDITIONS[target.resource.group, target.resource.plural, type_](obj))


def aggregate_conditions(conditions: Iterable[Condition]) -> list[Condition]:
    """Return, for each type that manifests report by rule, what holds for the work as a whole."""
    by_type: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_type.setdefault(condition.type, []).append(condition)
    return [_aggregate(type_, rows) for type_, rows in by_type.items()]


def _aggregate(type_: str, rows: list[Condition]) -> Condition:
    said = [row.status for row in rows]
    message = rows[0].message if len(rows) == 1 else f"{said.count('True')} of {len(rows)} manifests with this rule"
    # A work that progresses anywhere progresses; anything else holds only where it holds for all.
    weighty = "True" if type_ == ConditionType.WORK_PROGRESSING else "False"
    status = weighty if weighty in said else "Unknown" if "Unknown" in said else said[0]
    if status == "True":
        return Condition.true(type_, AGGREGATED, message)
    if status == "False":
        return Condition.false(type_, AGGREGATED, message)
    return Condition.unknown(type_, AGGREGATED, message)


def is_work_complete(work: Mapping[str, Any]) -> bool:
    """Whether a work has come to its end: nothing is applied any more."""
    return is_true(work, ConditionType.WORK_COMPLETE)


class ExpressionResult(Struct, frozen=True):
    """What expressions say; one that cannot be evaluated counts as not fulfilled."""

    holds: bool
    trouble: str = ""  # empty: all of them could be evaluated


def choose_rule_message(obj: Object, rule: Mapping[str, Any], *, holds: bool, otherwise: str) -> str:
    """Return what a rule says about an object: what its expression computes, its own text, or the usual sentence."""
    fallback = str(rule.get("message") or otherwise)
    expression = str(rule.get("messageExpression") or "")
    return compute_message(expression, {"object": obj, "result": holds}, fallback) if expression else fallback
