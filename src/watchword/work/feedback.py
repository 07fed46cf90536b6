"""Reads the status feedback and evaluates the condition rules that a work requests for an object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from watchword.api.conditions import Condition, conditions_of, is_true
from watchword.api.jsonpath import JsonPathError, find
from watchword.api.meta import Object, ObjectRef, mapping_at
from watchword.api.names import ConditionType
from watchword.cel.evaluate import Environment, compile_expression
from watchword.cel.functions import CelError
from watchword.cel.syntax import CelSyntaxError
from watchword.work.ignore_fields import normalize_json_path

MAX_TEXT_LENGTH = 1024
MAX_VALUES = 64

Read = Callable[[Object], Any]


def _status(field: str) -> Read:
    return lambda obj: mapping_at(obj, "status").get(field)


def _condition(type_: str) -> Read:
    return lambda obj: next((row.get("status") for row in conditions_of(obj) if row.get("type") == type_), None)


WELL_KNOWN_VALUES: dict[tuple[str, str], dict[str, Read]] = {
    ("apps", "deployments"): {
        "ReadyReplicas": _status("readyReplicas"),
        "Replicas": _status("replicas"),
        "AvailableReplicas": _status("availableReplicas"),
    },
    ("apps", "daemonsets"): {
        "NumberReady": _status("numberReady"),
        "DesiredNumberScheduled": _status("desiredNumberScheduled"),
        "NumberAvailable": _status("numberAvailable"),
    },
    ("batch", "jobs"): {"JobComplete": _condition("Complete"), "JobSucceeded": _status("succeeded")},
    ("", "pods"): {"PodReady": _condition("Ready"), "PodPhase": _status("phase")},
}
"""What every controller reports about these kinds, under the names that add-ons look for."""


class Feedback(Struct, frozen=True):
    """The values that could be read, and what could not."""

    values: tuple[Object, ...] = ()
    problems: tuple[str, ...] = ()


def read_feedback(obj: Object, rules: Iterable[Mapping[str, Any]], target: ObjectRef) -> Feedback:
    """Read every value that the rules name; one that does not exist yet is no error."""
    found: dict[str, Object] = {}
    problems: list[str] = []
    for rule in rules:
        for name, value in _read_rule(obj, rule, target, problems):
            row = field_value(value)
            if row is not None:
                found.setdefault(name, {"name": name, "fieldValue": row})
            elif value is not None:
                problems.append(f"{name} is not a single integer, string or boolean of moderate size")
    return Feedback(tuple(found.values())[:MAX_VALUES], tuple(problems))


def _read_rule(
    obj: Object, rule: Mapping[str, Any], target: ObjectRef, problems: list[str]
) -> Iterable[tuple[str, Any]]:
    if rule.get("type") == "WellKnownStatus":
        known = WELL_KNOWN_VALUES.get((target.resource.group, target.resource.plural))
        if known is None:
            problems.append(f"there are no well-known values of {target.resource.group_resource}: use JSONPaths")
        for name, read in (known or {}).items():
            yield name, read(obj)
        return
    if rule.get("type") != "JSONPaths":
        problems.append(f"feedback of type {str(rule.get('type'))[:40]!r} is not supported")
        return
    for row in rule.get("jsonPaths") or ():
        yield from _read_path(obj, row, target, problems)


def _read_path(
    obj: Object, row: Mapping[str, Any], target: ObjectRef, problems: list[str]
) -> Iterable[tuple[str, Any]]:
    name, path = str(row.get("name") or ""), str(row.get("path") or "")
    if row.get("version") not in (None, "", target.resource.version):
        return  # meant for another version of the kind
    try:
        values = find(without_secrets(obj, target), normalize_json_path(path))
    except JsonPathError as error:
        problems.append(f"the path of {name} is not understood: {error}")
        return
    if len(values) > 1:
        problems.append(f"the path of {name} leads to {len(values)} values instead of one")
    elif values:
        yield name, values[0]


def without_secrets(obj: Object, target: ObjectRef) -> Object:
    """Leave out what a Secret holds: a work must not carry it to the hub."""
    if target.resource.group_resource != "secrets":
        return obj
    annotations = {"annotations": None}  # some tools keep a copy of the whole object there
    return {"metadata": {**obj["metadata"], **annotations}, "type": obj.get("type")}


def field_value(value: Any) -> Object | None:
    """Return a value as the status of a work shows it; None when it cannot."""
    match value:
        case bool():
            return {"type": "Boolean", "boolean": value}
        case int() if -(2**63) <= value < 2**63:
            return {"type": "Integer", "integer": value}
        case str() if len(value) <= MAX_TEXT_LENGTH:
            return {"type": "String", "string": value}
        case _:
            return None


EVALUATED = "ConditionRuleEvaluated"
CEL = "CEL"
MAX_MESSAGE_LENGTH = 1024
MAX_EXPRESSIONS = 32
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


WELL_KNOWN_CONDITIONS: dict[tuple[str, str, str], Callable[[Object], bool]] = {
    ("batch", "jobs", ConditionType.WORK_COMPLETE): lambda job: is_true(job, "Complete") or is_true(job, "Failed"),
    ("", "pods", ConditionType.WORK_COMPLETE): lambda pod: (
        mapping_at(pod, "status").get("phase") in ("Succeeded", "Failed")
    ),
}
"""What is known to be meant by a condition of a kind."""


def decide_rule_conditions(
    obj: Object | None, rules: Iterable[Mapping[str, Any]], target: ObjectRef
) -> list[Condition]:
    """Return one condition for each rule; a rule that cannot be judged says so in its condition."""
    judged = (_decide_rule_condition(obj, rule, target) for rule in rules)
    return list({condition.type: condition for condition in judged if condition is not None}.values())


def _decide_rule_condition(obj: Object | None, rule: Mapping[str, Any], target: ObjectRef) -> Condition | None:
    type_ = str(rule.get("condition") or "")
    if not _TYPE.fullmatch(type_) or type_ in RESERVED:
        return None  # there is no place where it could be said
    objection = _validate_rule(rule, type_, target)
    if objection:
        return Condition.unknown(type_, "ConditionRuleInvalid", objection)
    if obj is None:
        return Condition.unknown(type_, EVALUATED, "the object does not exist")
    visible = without_secrets(obj, target)
    try:
        if rule.get("type") == CEL:
            holds = evaluate_expressions(visible, rule.get("celExpressions") or ())
        else:
            holds = WELL_KNOWN_CONDITIONS[target.resource.group, target.resource.plural, type_](visible)
    except _NotEvaluated as error:
        return Condition.false(type_, "ConditionRuleExpressionError", str(error)[:MAX_MESSAGE_LENGTH])
    usual = f"{target} is {'' if holds else 'not '}{type_}"
    message = choose_rule_message(visible, rule, holds=holds, otherwise=usual)[:MAX_MESSAGE_LENGTH]
    if holds:
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
        return Condition.true(type_, "ConditionRulesAggregated", message)
    if status == "False":
        return Condition.false(type_, "ConditionRulesAggregated", message)
    return Condition.unknown(type_, "ConditionRulesAggregated", message)


class _NotEvaluated(Exception):
    """An expression cannot be evaluated, which counts as not fulfilled; the message says why."""


def choose_rule_message(obj: Object, rule: Mapping[str, Any], *, holds: bool, otherwise: str) -> str:
    """Return what a rule says about an object: what its expression computes, its own text, or the usual sentence."""
    fallback, expression = str(rule.get("message") or otherwise), str(rule.get("messageExpression") or "")
    if not expression:
        return fallback
    try:
        said = compile_expression(expression, _MESSAGE).evaluate({"object": obj, "result": holds})
    except (CelError, CelSyntaxError) as error:
        return f"{fallback} (its message cannot be computed: {error})"
    return said if isinstance(said, str) and said else fallback


def _has_conditions(status: Any) -> bool:
    return type(status) is dict and type(status.get("conditions")) is list and bool(status["conditions"])


_FUNCTIONS = {("hasConditions", 1): _has_conditions}
_CONDITION = Environment(frozenset({"object"}), _FUNCTIONS)
_MESSAGE = Environment(frozenset({"object", "result"}), _FUNCTIONS)


def evaluate_expressions(obj: Object, expressions: Sequence[Any]) -> bool:
    """Return whether all expressions hold; the first that does not decides."""
    if not 0 < len(expressions) <= MAX_EXPRESSIONS:
        raise _NotEvaluated(f"the rule has {len(expressions)} expressions: write 1 to {MAX_EXPRESSIONS}")
    for place, text in enumerate(expressions):
        try:
            value = compile_expression(str(text), _CONDITION).evaluate({"object": obj})
        except (CelError, CelSyntaxError) as error:
            raise _NotEvaluated(f"expression {place} cannot be evaluated: {error}") from error
        if type(value) is not bool:
            raise _NotEvaluated(f"expression {place} is neither true nor false")
        if not value:
            return False
    return True
