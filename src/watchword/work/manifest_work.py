"""Keeps the objects of a ManifestWork on the managed cluster as the hub wants them, and tells the hub about it."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.conditions import Condition, is_true
from watchword.api.meta import Object, ObjectKey, ObjectRef, finalizers_of, is_deleting, owner_reference
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from watchword.kube.backoff import Backoff
from watchword.kube.rest_mapper import RestMapper
from watchword.runtime.api_errors import is_kind_missing
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.ensure import add_finalizer, delete_object, remove_finalizer
from watchword.runtime.reconcile import Done, Outcome, RetryAfter, TriggerSource
from watchword.work.applied_work_store import AppliedResource, AppliedWorkStore, read_applied_resources
from watchword.work.applier import Applier
from watchword.work.feedback import MAX_MESSAGE_LENGTH
from watchword.work.manifests import resolve_manifests
from watchword.work.object_watches import ObjectWatches
from watchword.work.objects import ObjectRemover, RemovalFailure, SharedObjects
from watchword.work.plan import (
    ApplyOutcome,
    ApplyOutcomes,
    ApplyPlan,
    ApplyStep,
    RetryMode,
    choose_applied_resources,
    choose_apply_plan,
    is_orphaned,
)
from watchword.work.status import NEVER, WorkStatusReporter

EXECUTOR_RECHECK = timedelta(seconds=60)
RECHECK = timedelta(seconds=5)
REMOVAL_RECHECK = timedelta(minutes=1)
RETRY = Backoff(first=1.0, limit=240.0)


class WorkReconciler(Struct):
    """Reconciles ManifestWork on the hub; triggered by it, its record and the objects that it has applied."""

    hub: ApiServerConnection
    applied_work_store: AppliedWorkStore
    rest_mapper: RestMapper
    applier: Applier
    remover: ObjectRemover
    watches: ObjectWatches
    shared: SharedObjects
    reporter: WorkStatusReporter
    random: Random
    recheck: timedelta  # of what nothing has happened to
    protected_namespaces: frozenset[str]  # that only works with an executor may change
    trigger_source: TriggerSource = field(default_factory=TriggerSource)
    _failures: dict[ObjectKey, int] = field(default_factory=dict)
    _known: dict[ObjectKey, frozenset[ObjectRef]] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Apply, record, remove what is no longer wanted, and report in one request."""
        work = self.hub.cache.get(MANIFEST_WORKS, key)
        if work is None or is_deleting(work) or is_true(work, ConditionType.WORK_COMPLETE):
            self.watches.forget(self.trigger_source, key)
            self.reporter.throttle.forget(key)
            self._failures.pop(key, None)
            for target in self._known.pop(key, frozenset()):
                self.applier.forget(target)
            return await self._finalize(work) if work is not None and is_deleting(work) else Done()
        # The work cannot vanish before its objects do.
        work = await add_finalizer(self.hub.client, MANIFEST_WORKS, work, Finalizer.MANIFEST_WORK)
        record = await self.applied_work_store.ensure(key.name)
        if is_deleting(record):  # it is being removed; everything is applied again once it is gone
            return RetryAfter(RECHECK)
        manifests = await resolve_manifests(work, self.rest_mapper)
        plan = choose_apply_plan(work, record, manifests, self.protected_namespaces)
        plan = replace(plan, record=await self.applied_work_store.record_targets(record, plan.written))
        outcomes = await self._apply(key, plan)
        left, failure = await self._remove_stale(plan, outcomes)
        waiting = await self.reporter.report(work, plan, outcomes, failure)
        if failure is not None:
            raise failure.error
        return RetryAfter(min(waiting, RECHECK if left else NEVER, self._requeue_delay(key, plan, outcomes)))

    async def _apply(self, key: ObjectKey, plan: ApplyPlan) -> ApplyOutcomes:
        await self._watch_objects(key, plan)
        outcomes = {}
        for step in plan.steps:
            if step.objection:
                outcomes[step.target] = ApplyOutcome(why=step.objection, is_readable=False)
                continue
            outcome = outcomes[step.target] = await self.applier.apply(self._with_sharing(step, plan.record))
            if outcome.error is not None and is_kind_missing(outcome.error):
                self.rest_mapper.forget(step.target.resource)
        return outcomes

    def _with_sharing(self, step: ApplyStep, record: Object) -> ApplyStep:
        """Look for other works only now that our own record names the object: two works cannot miss each other."""
        others = self.shared.others(record, step.target)
        if not others:
            return step
        deciding = self.shared.choose_deciding_work(record, others, step.target)
        return replace(step, is_shared=True, deciding_work=deciding)

    async def _watch_objects(self, key: ObjectKey, plan: ApplyPlan) -> None:
        """Watch the objects, and wait for those that are likely there: one look instead of many questions."""
        for target in self._known.get(key, frozenset()) - plan.targets:
            self.applier.forget(target)
        self._known[key] = plan.targets
        allowed = [step for step in plan.steps if not step.objection]
        self.watches.watch_objects(self.trigger_source, key, frozenset(step.target for step in allowed))
        await self.watches.wait_for_sync(step.target for step in allowed if step.recorded)

    async def _remove_stale(
        self, plan: ApplyPlan, outcomes: ApplyOutcomes
    ) -> tuple[Sequence[AppliedResource], RemovalFailure | None]:
        targets = await self.remover.resolve(plan.stale_resources())

        def is_kept(target: ObjectRef) -> bool:
            return plan.is_kept(target) or self.shared.is_kept(plan.record, target)

        left, failure = await self.remover.remove(targets, owner_reference(plan.record), keep=is_kept)
        await self.applied_work_store.write(plan.record, choose_applied_resources(plan, outcomes, left))
        return left, failure

    def _requeue_delay(self, key: ObjectKey, plan: ApplyPlan, outcomes: ApplyOutcomes) -> timedelta:
        urgency = max((outcome.retry for outcome in outcomes.values() if outcome.why), default=RetryMode.ON_CHANGE)
        if urgency is RetryMode.WITH_BACKOFF or any(one.retryable for one in plan.refused):
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            return timedelta(seconds=RETRY.delay(failures, self.random))
        self._failures.pop(key, None)
        if urgency is RetryMode.AFTER_MINUTE:
            return EXECUTOR_RECHECK
        asked = [step.target for step in plan.steps if step.config.feedback or step.config.rules]
        blind = any(not self.watches.has_synced(target) for target in asked)
        return (self.reporter.throttle.interval if blind else self.recheck) * self.random.uniform(1.0, 1.5)

    async def _finalize(self, work: Object) -> Outcome:
        """Remove the record, whose own finalizer waits for the objects, then the work's finalizer."""
        if Finalizer.MANIFEST_WORK not in finalizers_of(work):
            return Done()
        name = work["metadata"]["name"]
        record = self.applied_work_store.find(name)
        if record is None:
            await remove_finalizer(self.hub.client, MANIFEST_WORKS, work, Finalizer.MANIFEST_WORK)
            return Done()
        record = await self.applied_work_store.adopt(record, name)
        if not is_deleting(record):
            refusal = await self._release_orphans(work, record)
            if refusal is not None:
                await self._set_deleting_condition(work, record, f"; {refusal}")
                raise refusal.error
            await delete_object(self.applied_work_store.client, APPLIED_MANIFEST_WORKS, record)
        refused = self.remover.failures.get(ObjectKey.of(record))
        await self._set_deleting_condition(work, record, f"; {refused}" if refused else "")
        return RetryAfter(REMOVAL_RECHECK)

    async def _set_deleting_condition(self, work: Object, record: Object, refused: str) -> None:
        message = f"waiting for the deletion of {len(read_applied_resources(record))} objects{refused}"
        deleting = Condition.true(ConditionType.DELETING, "WorkDeleting", message[:MAX_MESSAGE_LENGTH])
        await self.hub.status.set_condition(MANIFEST_WORKS, work, deleting)

    async def _release_orphans(self, work: Object, record: Object) -> RemovalFailure | None:
        """Remove the owner of objects that are kept: that setting may have come with the deletion."""
        spec = work.get("spec") or {}
        located = await self.remover.resolve(read_applied_resources(record))
        kept = {one: target for one, target in located.items() if is_orphaned(spec, target)}
        _, refusal = await self.remover.remove(kept, owner_reference(record), keep=lambda _: True)
        return refusal
