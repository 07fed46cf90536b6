"""Tells the hub how a work fares, in one request, and not more often than it can bear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from watchword.agent.work.completion import judge_rules
from watchword.agent.work.feedback import Feedback, read_feedback
from watchword.agent.work.manifests import Target
from watchword.agent.work.objects import Objects
from watchword.agent.work.outcomes import Again, Outcome
from watchword.agent.work.pace import Pace
from watchword.agent.work.planning import Plan
from watchword.agent.work.releasing import Refusal
from watchword.agent.work.report import (
    Report,
    choose_change,
    is_only_feedback,
    judge_applied,
    judge_available,
    refused,
)
from watchword.agent.work.writing import Order
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.errors import ApiStatusError
from watchword.runtime.clock import Clock
from watchword.runtime.status import StatusWriter, choose_status_patch

NEVER = timedelta.max

Outcomes = Mapping[Target, Outcome]


@dataclass(frozen=True)
class Reporter:
    """Writes the status of works on the hub."""

    status: StatusWriter
    objects: Objects
    pace: Pace
    clock: Clock

    async def report(self, work: Object, plan: Plan, outcomes: Outcomes, left: Refusal | None = None) -> timedelta:
        """Write the status when it says anything new; return how long news of lesser weight has to wait."""
        key = ObjectKey.of(work)
        reports = [refused(one.meta, one.why) for one in plan.refused]
        reports += [await self._report_on(order, outcomes[order.target]) for order in plan.orders]
        leftover = "" if left is None else str(left)
        change = choose_change(work, reports, now=self.clock.now(), refused=leftover)
        if choose_status_patch(work, change, now=self.clock.now()) is None:
            return NEVER
        lesser = is_only_feedback(work, change) and not leftover
        if lesser and self.pace.wait(key):
            return self.pace.wait(key)
        await self.status.write(MANIFEST_WORKS, work, change)
        if lesser:
            self.pace.wrote(key)
        return NEVER

    async def _report_on(self, order: Order, outcome: Outcome) -> Report:
        present, trouble = outcome.present, ""
        if outcome.why:
            present, trouble = await self._look(order, outcome)
        treatment, target = order.treatment, order.target
        feedback = None
        if treatment.feedback:
            absent = Feedback(troubles=("the object cannot be read",))
            feedback = absent if present is None else read_feedback(present, treatment.feedback, target)
        return Report(
            order.placed.meta,
            judge_applied(outcome),
            judge_available(present, trouble),
            feedback,
            tuple(judge_rules(present, treatment.rules, target)),
        )

    async def _look(self, order: Order, outcome: Outcome) -> tuple[Object | None, str]:
        """Return an object that could not be applied and yet may be there, or why it cannot be looked at."""
        if outcome.again is Again.IN_A_MINUTE:  # the executor may not even look
            return None, outcome.why
        try:
            return await self.objects.read(order.target), ""
        except ApiStatusError:
            return None, outcome.why
