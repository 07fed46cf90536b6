"""Tells the hub how a work fares, in one request, and not more often than it can bear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from watchword.agent.work.condition_rules import decide_rule_conditions
from watchword.agent.work.feedback import Feedback, read_feedback
from watchword.agent.work.feedback_throttle import FeedbackThrottle
from watchword.agent.work.manifests import ObjectRef
from watchword.agent.work.object_client import ObjectClient
from watchword.agent.work.object_remover import RemovalFailure
from watchword.agent.work.object_writer import ApplyStep
from watchword.agent.work.outcomes import ApplyOutcome, RetryMode
from watchword.agent.work.plan import ApplyPlan
from watchword.agent.work.status import (
    ManifestStatus,
    choose_work_status,
    decide_applied_condition,
    decide_available_condition,
    is_feedback_only,
    refused,
)
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.errors import ApiStatusError
from watchword.runtime.clock import Clock
from watchword.runtime.status import StatusWriter, choose_status_patch

NEVER = timedelta.max

ApplyOutcomes = Mapping[ObjectRef, ApplyOutcome]


@dataclass(frozen=True)
class WorkStatusReporter:
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
        present, trouble = outcome.present, ""
        if outcome.why:
            present, trouble = await self._read_unapplied(step, outcome)
        config, target = step.config, step.target
        feedback = None
        if config.feedback:
            absent = Feedback(troubles=("the object cannot be read",))
            feedback = absent if present is None else read_feedback(present, config.feedback, target)
        return ManifestStatus(
            step.manifest.meta,
            decide_applied_condition(outcome),
            decide_available_condition(present, trouble),
            feedback,
            tuple(decide_rule_conditions(present, config.rules, target)),
        )

    async def _read_unapplied(self, step: ApplyStep, outcome: ApplyOutcome) -> tuple[Object | None, str]:
        """Return an object that could not be applied and yet may be there, or why it cannot be looked at."""
        if outcome.retry is RetryMode.AFTER_MINUTE:  # the executor may not even look
            return None, outcome.why
        try:
            return await self.objects.read(step.target), ""
        except ApiStatusError:
            return None, outcome.why
