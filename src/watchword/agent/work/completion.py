"""Judges the conditions that a work asks to be computed from its objects, completion above all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from watchword.agent.work.manifests import Target
from watchword.api.conditions import Condition, is_true
from watchword.api.meta import Object
from watchword.api.names import ConditionType

EVALUATED = "ConditionRuleEvaluated"
INVALID = "ConditionRuleInvalid"
AGGREGATED = "ConditionRulesAggregated"
RESERVED = frozenset(
    {
        ConditionType.WORK_APPLIED,
        ConditionType.WORK_AVAILABLE,
        ConditionType.STATUS_FEEDBACK_SYNCED,
        ConditionType.DELETING,
    }
)
_TYPE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,98}[A-Za-z0-9])?", re.ASCII)


def _job_finished(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _pod_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


WELL_KNOWN: dict[tuple[str, str, str], Callable[[Object], bool]] = {
    ("batch", "jobs", ConditionType.WORK_COMPLETE): _job_finished,
    ("", "pods", ConditionType.WORK_COMPLETE): _pod_finished,
}
"""What is known to be meant by a condition of a kind."""


def judge_rules(obj: Object | None, rules: Iterable[Mapping[str, Any]], target: Target) -> list[Condition]:
    """Return one condition for each rule; a rule that cannot be judged says so in its condition."""
    judged = {condition.type: condition for rule in rules if (condition := _judge(obj, rule, target)) is not None}
    return list(judged.values())


def _judge(obj: Object | None, rule: Mapping[str, Any], target: Target) -> Condition | None:
    type_ = str(rule.get("condition") or "")
    if not _TYPE.fullmatch(type_) or type_ in RESERVED:
        return None  # there is no place where it could be said
    if rule.get("type") != "WellKnownConditions":
        asked = str(rule.get("type"))[:40]
        return Condition.unknown(type_, INVALID, f"rules of type {asked} are not supported: use WellKnownConditions")
    decide = WELL_KNOWN.get((target.resource.group, target.resource.plural, type_))
    if decide is None:
        message = f"nothing is known about the condition {type_} of {target.resource.group_resource}"
        return Condition.unknown(type_, INVALID, message)
    if obj is None:
        return Condition.unknown(type_, EVALUATED, "the object is not there")
    holds = decide(obj)
    message = str(rule.get("message") or f"{target} is {'' if holds else 'not '}finished")[:1024]
    return Condition.true(type_, EVALUATED, message) if holds else Condition.false(type_, EVALUATED, message)


def aggregate(conditions: Iterable[Condition]) -> list[Condition]:
    """Return, for each type that manifests report by rule, what holds for the work: the worst of them."""
    by_type: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_type.setdefault(condition.type, []).append(condition)
    return [_aggregate(type_, rows) for type_, rows in by_type.items()]


def _aggregate(type_: str, rows: list[Condition]) -> Condition:
    counts = {status: sum(row.status == status for row in rows) for status in ("True", "False", "Unknown")}
    message = f"{counts['True']} of {len(rows)} manifests with this rule"
    if counts["False"]:
        return Condition.false(type_, AGGREGATED, message)
    if counts["Unknown"]:
        return Condition.unknown(type_, AGGREGATED, message)
    return Condition.true(type_, AGGREGATED, message)


def is_complete(work: Mapping[str, Any]) -> bool:
    """Whether a work has come to its end: nothing is applied any more."""
    return is_true(work, ConditionType.WORK_COMPLETE)
