"""Says on the hub how a work and each of its manifests fare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from watchword.agent.work.condition_rules import aggregate_conditions
from watchword.agent.work.feedback import Feedback
from watchword.agent.work.manifests import ManifestMeta
from watchword.agent.work.outcomes import AppliedReason, ApplyOutcome
from watchword.api.conditions import Condition, find_condition, merge_condition
from watchword.api.meta import Object
from watchword.api.names import ConditionType
from watchword.runtime.status import StatusChange

MAX_MESSAGE_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class ManifestStatus:
    """How one manifest fares."""

    meta: ManifestMeta
    applied: Condition
    available: Condition
    feedback: Feedback | None = None  # None: nothing is asked for
    rules: tuple[Condition, ...] = ()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Everything that is said about the manifest."""
        return (self.applied, self.available, decide_feedback_condition(self.feedback), *self.rules)


def decide_applied_condition(outcome: ApplyOutcome) -> Condition:
    """Say whether a manifest is applied."""
    if outcome.why:
        return Condition.false(ConditionType.WORK_APPLIED, outcome.reason, outcome.why[:MAX_MESSAGE_LENGTH])
    return Condition.true(ConditionType.WORK_APPLIED, AppliedReason.COMPLETE, "the manifest is applied")


def decide_available_condition(present: Object | None, trouble: str = "") -> Condition:
    """Say whether an object is there; how well it is, only feedback can tell."""
    if trouble:
        return Condition.unknown(ConditionType.WORK_AVAILABLE, "FetchingResourceFailed", trouble[:MAX_MESSAGE_LENGTH])
    if present is None:
        return Condition.false(ConditionType.WORK_AVAILABLE, "ResourceNotAvailable", "the object is not there")
    return Condition.true(ConditionType.WORK_AVAILABLE, "ResourceAvailable", "the object is there")


def refused(meta: ManifestMeta, why: str) -> ManifestStatus:
    """ManifestStatus a manifest that stands for no object."""
    message = "nobody can tell which object is meant"
    unknown = Condition.unknown(ConditionType.WORK_AVAILABLE, "IncompleteResourceMeta", message)
    return ManifestStatus(meta, Condition.false(ConditionType.WORK_APPLIED, AppliedReason.FAILED, why), unknown)


def decide_feedback_condition(feedback: Feedback | None) -> Condition:
    """Say whether what was asked for could be reported."""
    type_ = ConditionType.STATUS_FEEDBACK_SYNCED
    if feedback is None:
        return Condition.true(type_, "NoStatusFeedbackSynced", "nothing is asked to be reported")
    if feedback.troubles:
        return Condition.false(type_, "StatusFeedbackSyncFailed", "; ".join(feedback.troubles)[:MAX_MESSAGE_LENGTH])
    return Condition.true(type_, "StatusFeedbackSynced", "what was asked for is reported")


def decide_work_conditions(reports: Sequence[ManifestStatus]) -> list[Condition]:
    """Say how a work fares as a whole."""
    rules = aggregate_conditions(condition for report in reports for condition in report.rules)
    return [_decide_work_applied(reports), _decide_work_available(reports), *rules]


def _decide_work_applied(reports: Sequence[ManifestStatus]) -> Condition:
    failed = [report.meta.ordinal for report in reports if report.applied.status != "True"]
    if not failed:
        return Condition.true(ConditionType.WORK_APPLIED, "AppliedManifestWorkComplete", "every manifest is applied")
    message = f"{len(failed)} of {len(reports)} manifests are not applied: {_some(failed)}"
    return Condition.false(ConditionType.WORK_APPLIED, "AppliedManifestWorkFailed", message)


def _decide_work_available(reports: Sequence[ManifestStatus]) -> Condition:
    type_ = ConditionType.WORK_AVAILABLE
    absent = [report.meta.ordinal for report in reports if report.available.status == "False"]
    unknown = [report.meta.ordinal for report in reports if report.available.status == "Unknown"]
    if absent:
        message = f"{len(absent)} of {len(reports)} objects are not there: {_some(absent)}"
        return Condition.false(type_, "ResourcesNotAvailable", message)
    if unknown:
        message = f"{len(unknown)} of {len(reports)} objects cannot be looked at: {_some(unknown)}"
        return Condition.unknown(type_, "ResourcesStatusUnknown", message)
    return Condition.true(type_, "ResourcesAvailable", "every object is there")


def _some(ordinals: Sequence[int]) -> str:
    more = ", …" if len(ordinals) > 10 else ""
    return f"manifest {', '.join(map(str, ordinals[:10]))}{more}"


def decide_removal_conditions(refused: str) -> list[Condition]:
    """Say that something which is no longer wanted cannot be removed; there is nothing to say when all went."""
    if not refused:
        return []
    return [Condition.false(ConditionType.LEFTOVERS_REMOVED, "RemovalRefused", refused[:MAX_MESSAGE_LENGTH])]


def choose_work_status(
    work: Mapping[str, Any], reports: Sequence[ManifestStatus], *, now: datetime, refused: str = ""
) -> StatusChange:
    """Return everything that the status of a work should say, for one request."""
    before = {_identity(row): row for row in manifest_statuses(work)}
    generation = (work.get("metadata") or {}).get("generation")
    rows = [
        _row(report, before.get(_identity({"resourceMeta": report.meta.row()})), now=now, generation=generation)
        for report in sorted(reports, key=lambda report: report.meta.ordinal)
    ]
    conditions = (*decide_work_conditions(reports), *decide_removal_conditions(refused))
    gone = {ConditionType.LEFTOVERS_REMOVED, *_rules_in(before.values())} - {row.type for row in conditions}
    return StatusChange(conditions, tuple(sorted(gone)), {"resourceStatus": {"manifests": rows}})


def manifest_statuses(work: Mapping[str, Any]) -> list[Object]:
    """Return what the status of a work says about its manifests."""
    status = (work.get("status") or {}).get("resourceStatus") or {}
    return status.get("manifests") or []


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    meta = row.get("resourceMeta") or {}
    return tuple(meta.get(field) or "" for field in ("ordinal", "group", "kind", "namespace", "name"))


def _row(report: ManifestStatus, before: Mapping[str, Any] | None, *, now: datetime, generation: int | None) -> Object:
    said = {row.get("type"): row for row in (before or {}).get("conditions") or ()}
    conditions: list[Object] = []
    for condition in report.conditions:
        old = [said[condition.type]] if condition.type in said else []
        conditions += merge_condition(old, condition, now=now, generation=generation) or old
    row: Object = {"resourceMeta": report.meta.row(), "conditions": conditions}
    if report.feedback is not None and report.feedback.values:
        row["statusFeedback"] = {"values": list(report.feedback.values)}
    return row


_MANIFEST_CONDITIONS = frozenset(
    {ConditionType.WORK_APPLIED, ConditionType.WORK_AVAILABLE, ConditionType.STATUS_FEEDBACK_SYNCED}
)


def _rules_in(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the types of conditions that were computed by rules: they go when their rules go."""
    types = {str(condition.get("type")) for row in rows for condition in row.get("conditions") or ()}
    return types - _MANIFEST_CONDITIONS


def is_generation_applied(work: Mapping[str, Any]) -> bool:
    """Whether the manifests as they stand have all been applied before."""
    applied = find_condition(work, ConditionType.WORK_APPLIED)
    if applied is None or applied.status != "True":
        return False
    row = next(row for row in work["status"]["conditions"] if row.get("type") == ConditionType.WORK_APPLIED)
    return bool(row.get("observedGeneration") == (work.get("metadata") or {}).get("generation"))


def is_feedback_only(work: Mapping[str, Any], change: StatusChange) -> bool:
    """Whether a change says nothing but reported values, and rules' other words for the same: such news may wait."""
    rows = (change.fields or {})["resourceStatus"]["manifests"]
    return [_without_values(row) for row in rows] == [_without_values(row) for row in manifest_statuses(work)]


def _without_values(row: Mapping[str, Any]) -> Object:
    said = [
        {
            name: value
            for name, value in condition.items()
            if name != "message" or condition.get("type") in _MANIFEST_CONDITIONS
        }
        for condition in row.get("conditions") or ()
    ]
    return {**{name: value for name, value in row.items() if name != "statusFeedback"}, "conditions": said}
