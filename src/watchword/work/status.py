"""Reports on the hub the status of a work and its manifests."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from watchword.api.conditions import Condition, merge_condition
from watchword.api.meta import Object, ObjectKey, rows_at
from watchword.api.names import ConditionType
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.errors import ApiStatusError
from watchword.runtime.clock import Clock
from watchword.runtime.status import StatusChange, StatusWriter, choose_status_patch
from watchword.work.feedback import (
    MAX_MESSAGE_LENGTH,
    Feedback,
    aggregate_conditions,
    decide_rule_conditions,
    read_feedback,
)
from watchword.work.manifests import ManifestMeta
from watchword.work.objects import ObjectClient, RemovalFailure
from watchword.work.plan import ApplyOutcome, ApplyOutcomes, ApplyPlan, ApplyStep

NEVER = timedelta.max
MIN_INTERVAL = 1.0  # seconds between two reports of values


class ManifestStatus(Struct, frozen=True):
    """The status of one manifest."""

    meta: ManifestMeta
    applied: Condition
    available: Condition
    feedback: Feedback | None = None  # None: nothing is asked for, or there is no object
    rules: tuple[Condition, ...] = ()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        # Of an object that cannot be read there is no feedback, good or bad.
        feedback = [decide_feedback_condition(self.feedback)] if self.available.status == "True" else []
        return (self.applied, self.available, *feedback, *self.rules)


def decide_applied_condition(outcome: ApplyOutcome) -> Condition:
    if outcome.why:
        return Condition.false(ConditionType.WORK_APPLIED, outcome.reason, outcome.why[:MAX_MESSAGE_LENGTH])
    return Condition.true(ConditionType.WORK_APPLIED, "AppliedManifestComplete", "the manifest is applied")


def decide_available_condition(present: Object | None, problem: str = "") -> Condition:
    if problem:
        return Condition.unknown(ConditionType.WORK_AVAILABLE, "FetchingResourceFailed", problem[:MAX_MESSAGE_LENGTH])
    if present is None:
        return Condition.false(ConditionType.WORK_AVAILABLE, "ResourceNotAvailable", "the object does not exist")
    return Condition.true(ConditionType.WORK_AVAILABLE, "ResourceAvailable", "the object is there")


def refused(meta: ManifestMeta, why: str) -> ManifestStatus:
    message = "the manifest does not say which object is meant"
    unknown = Condition.unknown(ConditionType.WORK_AVAILABLE, "IncompleteResourceMeta", message)
    return ManifestStatus(meta, Condition.false(ConditionType.WORK_APPLIED, "AppliedManifestFailed", why), unknown)


def decide_feedback_condition(feedback: Feedback | None) -> Condition:
    type_ = ConditionType.STATUS_FEEDBACK_SYNCED
    if feedback is None:
        return Condition.true(type_, "NoStatusFeedbackSynced", "nothing is asked to be reported")
    if feedback.problems:
        return Condition.false(type_, "StatusFeedbackSyncFailed", "; ".join(feedback.problems)[:MAX_MESSAGE_LENGTH])
    return Condition.true(type_, "StatusFeedbackSynced", "what was asked for is reported")


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
        message = f"{len(absent)} of {len(reports)} objects do not exist: {_some(absent)}"
        return Condition.false(type_, "ResourcesNotAvailable", message)
    if unknown:
        message = f"{len(unknown)} of {len(reports)} objects cannot be read: {_some(unknown)}"
        return Condition.unknown(type_, "ResourcesStatusUnknown", message)
    return Condition.true(type_, "ResourcesAvailable", "every object is there")


def _some(ordinals: Sequence[int]) -> str:
    more = ", …" if len(ordinals) > 10 else ""
    return f"manifest {', '.join(map(str, ordinals[:10]))}{more}"


def choose_work_status(
    work: Mapping[str, Any], reports: Sequence[ManifestStatus], *, now: datetime, refused: str = ""
) -> StatusChange:
    """Return everything that the status of a work should say, for one request."""
    before = {_identity(row): row for row in manifest_statuses(work)}
    generation = (work.get("metadata") or {}).get("generation")
    rows = [
        _row(report, before.get(_identity({"resourceMeta": asdict(report.meta)}), {}), now=now, generation=generation)
        for report in sorted(reports, key=lambda report: report.meta.ordinal)
    ]
    rules = aggregate_conditions(condition for report in reports for condition in report.rules)
    conditions = [_decide_work_applied(reports), _decide_work_available(reports), *rules]
    if refused:  # something that is no longer wanted cannot be removed
        message = refused[:MAX_MESSAGE_LENGTH]
        conditions.append(Condition.false(ConditionType.LEFTOVERS_REMOVED, "RemovalRefused", message))
    said = {str(condition.get("type")) for row in before.values() for condition in row.get("conditions") or ()}
    # Conditions that were computed by rules go when their rules go.
    gone = {ConditionType.LEFTOVERS_REMOVED, *(said - _MANIFEST_CONDITIONS)} - {row.type for row in conditions}
    return StatusChange(tuple(conditions), tuple(sorted(gone)), {"resourceStatus": {"manifests": rows}})


def manifest_statuses(work: Mapping[str, Any]) -> list[Object]:
    return rows_at(work, "status", "resourceStatus", "manifests")


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    meta = row.get("resourceMeta") or {}
    return tuple(meta.get(field) or "" for field in ("ordinal", "group", "kind", "namespace", "name"))


def _row(report: ManifestStatus, before: Mapping[str, Any], *, now: datetime, generation: int | None) -> Object:
    said = {row.get("type"): row for row in before.get("conditions") or ()}
    conditions: list[Object] = []
    for condition in report.conditions:
        old = [said[condition.type]] if condition.type in said else []
        conditions += merge_condition(old, condition, now=now, generation=generation) or old
    row: Object = {"resourceMeta": asdict(report.meta), "conditions": conditions}
    if report.feedback is not None and report.feedback.values:
        row["statusFeedback"] = {"values": list(report.feedback.values)}
    return row


_MANIFEST_CONDITIONS = frozenset(
    {ConditionType.WORK_APPLIED, ConditionType.WORK_AVAILABLE, ConditionType.STATUS_FEEDBACK_SYNCED}
)


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


class FeedbackThrottle(Struct):
    """Each report that follows another soon waits twice as long as the one before, up to the interval."""

    interval: timedelta  # at least `MIN_INTERVAL`: what cannot be watched is read as often
    _reports: dict[ObjectKey, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.interval = max(self.interval, timedelta(seconds=MIN_INTERVAL))

    def delay(self, key: ObjectKey) -> timedelta:
        """Return how long the next report has to delay; nothing when it may go now."""
        written_at, gap = self._reports.get(key, (float("-inf"), MIN_INTERVAL))
        return timedelta(seconds=max(0.0, written_at + gap - asyncio.get_running_loop().time()))

    def record_write(self, key: ObjectKey) -> None:
        now = asyncio.get_running_loop().time()
        written, gap = self._reports.get(key, (float("-inf"), MIN_INTERVAL))
        slowest = self.interval.total_seconds()
        is_rested = now - written > 2 * slowest
        self._reports[key] = now, MIN_INTERVAL if is_rested else min(slowest, 2 * gap)

    def forget(self, key: ObjectKey) -> None:
        self._reports.pop(key, None)


class WorkStatusReporter(Struct, frozen=True):
    """Writes the status of works on the hub."""

    status: StatusWriter
    objects: ObjectClient
    throttle: FeedbackThrottle
    clock: Clock

    async def report(
        self, work: Object, plan: ApplyPlan, outcomes: ApplyOutcomes, left: RemovalFailure | None = None
    ) -> timedelta:
        """Write the status when it says anything new; return how long news of lesser weight has to delay."""
        key = ObjectKey.of(work)
        reports = [refused(one.meta, one.why) for one in plan.refused]
        reports += [await self._report_on(step, outcomes[step.target]) for step in plan.steps]
        leftover = "" if left is None else str(left)
        change = choose_work_status(work, reports, now=self.clock.now(), refused=leftover)
        if choose_status_patch(work, change, now=self.clock.now()) is None:
            return NEVER
        lesser = is_feedback_only(work, change) and not leftover
        if lesser and self.throttle.delay(key):
            return self.throttle.delay(key)
        await self.status.write(MANIFEST_WORKS, work, change)
        if lesser:
            self.throttle.record_write(key)
        return NEVER

    async def _report_on(self, step: ApplyStep, outcome: ApplyOutcome) -> ManifestStatus:
        present, problem = outcome.present, ""
        if outcome.why:
            present, problem = await self._read_unapplied(step, outcome)
        config, target = step.config, step.target
        feedback = None
        if config.feedback and present is not None:
            feedback = read_feedback(present, config.feedback, target)
        return ManifestStatus(
            step.manifest.meta,
            decide_applied_condition(outcome),
            decide_available_condition(present, problem),
            feedback,
            tuple(decide_rule_conditions(present, config.rules, target)),
        )

    async def _read_unapplied(self, step: ApplyStep, outcome: ApplyOutcome) -> tuple[Object | None, str]:
        """Return an object that could not be applied and yet may be there, or why it cannot be read."""
        if not outcome.is_readable:
            return None, ""
        try:
            return await self.objects.read(step.target), ""
        except ApiStatusError:
            return None, outcome.why
