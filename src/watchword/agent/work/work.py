"""Keeps the objects of a ManifestWork on the managed cluster as the hub wants them, and tells the hub about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from watchword.agent.work.applying import Applier
from watchword.agent.work.catalog import Catalog
from watchword.agent.work.completion import is_complete
from watchword.agent.work.ledger import Ledger
from watchword.agent.work.manifests import Target
from watchword.agent.work.outcomes import Again, Outcome
from watchword.agent.work.ownership import Applied
from watchword.agent.work.planning import Plan, choose_plan, choose_record
from watchword.agent.work.reading import read_manifests
from watchword.agent.work.refusals import is_kind_missing
from watchword.agent.work.releasing import Refusal, Releaser
from watchword.agent.work.reporting import NEVER, Outcomes, Reporter
from watchword.agent.work.watches import ObjectWatches
from watchword.agent.work.withdrawal import Withdrawal
from watchword.api.meta import Object, ObjectKey, finalizers_of, is_deleting
from watchword.api.names import Finalizer
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.retry import Backoff
from watchword.runtime.connection import Connection
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Bell, Done, RetryAfter
from watchword.runtime.reconcile import Outcome as Verdict

EXECUTOR_RECHECK = timedelta(seconds=60)
WAIT = timedelta(seconds=5)
RETRY = Backoff(first=1.0, limit=240.0)


@dataclass
class WorkReconciler:
    """Reconciles ManifestWork on the hub; woken by it, by its record and by the objects it has applied."""

    hub: Connection
    ledger: Ledger
    catalog: Catalog
    applier: Applier
    releaser: Releaser
    watches: ObjectWatches
    reporter: Reporter
    random: Random
    recheck: timedelta  # of what nothing has happened to
    bell: Bell = field(default_factory=Bell)
    _failures: dict[ObjectKey, int] = field(default_factory=dict, init=False)
    _known: dict[ObjectKey, frozenset[Target]] = field(default_factory=dict, init=False)

    async def reconcile(self, key: ObjectKey) -> Verdict:
        """Apply, record, let go of what is not wanted any more, and report in one request."""
        work = self.hub.cache.get(MANIFEST_WORKS, key)
        if work is None or is_deleting(work) or is_complete(work):
            self._rest(key)
            if work is None or not is_deleting(work):
                return Done()
            return await Withdrawal(self.hub, self.ledger, self.releaser).withdraw(work)
        work = await self._claim(work)
        record = await self.ledger.open(key.name)
        if is_deleting(record):  # somebody removed it; everything is made anew once it is gone
            return RetryAfter(WAIT)
        plan = choose_plan(work, record, await read_manifests(work, self.catalog))
        plan = replace(plan, record=await self.ledger.intend(record, plan.written))
        outcomes = await self._apply(key, plan)
        left, trouble = await self._let_go(plan, outcomes)
        waiting = await self.reporter.report(work, plan, outcomes, trouble)
        if trouble is not None:
            raise trouble.error
        return RetryAfter(min(waiting, WAIT if left else NEVER, self._choose_next(key, plan, outcomes)))

    async def _claim(self, work: Object) -> Object:
        """Make sure that the work cannot vanish before its objects do."""
        if Finalizer.MANIFEST_WORK in finalizers_of(work):
            return work
        patch = with_preconditions(work, {"metadata": {"finalizers": [*finalizers_of(work), Finalizer.MANIFEST_WORK]}})
        return await self.hub.client.patch(MANIFEST_WORKS, ObjectKey.of(work), patch)

    async def _apply(self, key: ObjectKey, plan: Plan) -> Outcomes:
        if plan.objection:
            return {order.target: Outcome.failed(plan.objection, Again.WHEN_CHANGED) for order in plan.orders}
        await self._follow(key, plan)
        outcomes = {}
        for order in plan.orders:
            outcome = outcomes[order.target] = await self.applier.apply(order)
            if outcome.error is not None and is_kind_missing(outcome.error):
                self.catalog.forget(order.target.resource)
        return outcomes

    async def _follow(self, key: ObjectKey, plan: Plan) -> None:
        """Watch the objects, and wait for those that are likely there: one look instead of many questions."""
        for target in self._known.get(key, frozenset()) - plan.targets:
            self.applier.forget(target)
        self._known[key] = plan.targets
        self.watches.want(self.bell, key, plan.targets)
        await self.watches.settle(order.target for order in plan.orders if order.recorded)

    async def _let_go(self, plan: Plan, outcomes: Outcomes) -> tuple[Sequence[Applied], Refusal | None]:
        targets = await self.releaser.locate(plan.stale())
        left, trouble = await self.releaser.release(targets, plan.owner, keep=plan.keeps)
        await self.ledger.write(plan.record, choose_record(plan, outcomes, left))
        return left, trouble

    def _choose_next(self, key: ObjectKey, plan: Plan, outcomes: Outcomes) -> timedelta:
        urgency = max((outcome.again for outcome in outcomes.values() if outcome.why), default=Again.WHEN_CHANGED)
        if urgency is Again.WITH_BACKOFF or any(one.passing for one in plan.refused):
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            return timedelta(seconds=RETRY.delay(failures, self.random))
        self._failures.pop(key, None)
        if urgency is Again.IN_A_MINUTE:
            return EXECUTOR_RECHECK
        asked = [order.target for order in plan.orders if order.treatment.feedback or order.treatment.rules]
        blind = any(not self.watches.has_seen(target) for target in asked)
        return (self.reporter.pace.interval if blind else self.recheck) * self.random.uniform(1.0, 1.5)

    def _rest(self, key: ObjectKey) -> None:
        """Follow and remember nothing about a work that is over."""
        self.watches.forget(self.bell, key)
        self.reporter.pace.forget(key)
        self._failures.pop(key, None)
        for target in self._known.pop(key, frozenset()):
            self.applier.forget(target)
