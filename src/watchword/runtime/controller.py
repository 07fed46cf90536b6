"""Runs one reconciler: events enqueue keys, workers reconcile them, failures are retried with backoff."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any

import structlog
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.kube.errors import ApiStatusError, Conflict, KubeError
from watchword.kube.watch import is_cancellation_requested
from watchword.runtime import reconcile
from watchword.runtime.cache import Cache
from watchword.runtime.errors import ControllerRuntimeError, FieldContested
from watchword.runtime.informer import DeltaHandler
from watchword.runtime.metrics import Metrics, ReconcileResult
from watchword.runtime.raw_objects import Delta
from watchword.runtime.work_queue import Quarantine, WorkQueue

KEYS_IN_A_TURN = 2
"""Keys after which a worker lets others run: reconciles that only read the cache never wait.

Controllers of a kind then read the same objects at about the same time, and the cache decodes them once.
"""


class RequeueDecision(Struct, frozen=True):
    """What a failed reconcile means for its key."""

    result: ReconcileResult
    retry: bool = True
    at_least: timedelta = timedelta(0)  # the server may request a longer delay than our own backoff
    expected: bool = True  # False: an unexpected error, so the log shows its traceback


def decide_requeue(error: BaseException, *, overdue: bool) -> RequeueDecision:
    if overdue:
        return RequeueDecision(ReconcileResult.DEADLINE)
    if isinstance(error, reconcile.Terminal):
        return RequeueDecision(ReconcileResult.TERMINAL, retry=False)
    if isinstance(error, Conflict):
        return RequeueDecision(ReconcileResult.CONFLICT)
    if isinstance(error, FieldContested):
        return RequeueDecision(ReconcileResult.CONTESTED, at_least=timedelta(seconds=error.retry_in))
    if isinstance(error, ApiStatusError) and error.retry_after:
        return RequeueDecision(ReconcileResult.ERROR, at_least=timedelta(seconds=min(error.retry_after, 300.0)))
    return RequeueDecision(ReconcileResult.ERROR, expected=isinstance(error, KubeError | ControllerRuntimeError))


class Controller:
    """Runs one `ControllerSpec`: triggers, workers, deadline, backoff; logs and counts each outcome once.

    A reconcile that fails, hangs or crashes delays its own key and nothing else.
    """

    def __init__(
        self, spec: reconcile.ControllerSpec, *, metrics: Metrics, random: Random, quarantine: Quarantine | None = None
    ) -> None:
        self.spec = spec
        self.queue: WorkQueue[ObjectKey] = WorkQueue(random=random, lane=_lane, quarantine=quarantine)
        self._metrics = metrics.controller(spec.name)
        self._numbers = count(1)
        self._workers = self._idle_workers = 0
        self._random = random
        self._refused: dict[ObjectKey, float] = {}  # keys whose last reconcile reported a refusal → since when
        self._log: Any = structlog.get_logger("watchword.controller")
        queue = self.queue
        metrics.watch_queue(
            spec.name,
            {"ready": lambda: len(queue), "in_flight": lambda: queue.in_flight, "delayed": lambda: queue.delayed},
            quarantined=lambda: queue.quarantined,
        )

    def subscribe(self, caches: Mapping[str, Cache]) -> None:
        """Register all triggers of the spec; every existing root object that concerns it is enqueued once."""
        caches[self.spec.connection_name].add_handler(self.spec.root, self._enqueue_root)
        for trigger in self.spec.triggers:
            caches[trigger.connection_name].add_handler(trigger.resource, self._enqueue_related(trigger))
        if self.spec.trigger_source is not None:
            self.spec.trigger_source.connect(self.queue.add)

    async def run(self) -> None:
        self._log = self._log.bind()  # binds the logger once, not for every line
        self._workers = self._idle_workers = 0
        self.queue.defer()  # every object of a fleet waits at a start: what changes from now on comes first
        async with asyncio.TaskGroup() as group:
            self._start_worker(group)

    async def drain(self, patience: timedelta) -> bool:
        """Accept no more keys and wait for reconciles in flight; returns whether they ended in time."""
        self.queue.close()
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await self.queue.idle()
        except TimeoutError:
            self._log.warning("work in flight was abandoned", controller=self.spec.name, keys=self.queue.in_flight)
            return False
        return True

    def _enqueue_root(self, delta: Delta) -> None:
        facts = self.spec.facts
        if delta.new is None:
            needs_work = self.spec.acts_on_deletion
        else:
            needs_work = (facts is None or delta.changes(facts)) and self._may_need_work(delta.new)
        if needs_work:
            self.queue.add(delta.key)

    def _may_need_work(self, obj: Object) -> bool:
        try:
            return self.spec.concerns(obj)
        except Exception:  # noqa: BLE001 - an unexpected object: its reconcile reports what is wrong with it
            return True

    def _enqueue_related(self, trigger: reconcile.Trigger) -> DeltaHandler:
        def handle(delta: Delta) -> None:
            if trigger.facts is not None and not delta.changes(trigger.facts):
                return
            # Both versions count: an object that the new version no longer refers to is enqueued as well.
            for obj in (delta.old, delta.new):
                for key in trigger.keys(obj) if obj is not None else ():
                    self.queue.add(key)

        return handle

    def _start_worker(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self._work(group), name=f"{self.spec.name} worker {self._workers}")
        self._workers += 1
        self._idle_workers += 1

    async def _work(self, group: asyncio.TaskGroup) -> None:
        """Reconcile one key after the other; the first key for which no other worker waits starts another one."""
        structlog.contextvars.bind_contextvars(controller=self.spec.name, kind=self.spec.root.kind)
        for turn in count(1):
            key = await self.queue.get()
            if key is None:
                return
            self._idle_workers -= 1
            if not self._idle_workers and self._workers < self.spec.workers:
                self._start_worker(group)
            try:
                await self._reconcile(key)
            finally:
                self.queue.done(key)
                self._idle_workers += 1
            if is_cancellation_requested():  # but a library raised another error instead: without this it would be lost
                raise asyncio.CancelledError
            if turn % KEYS_IN_A_TURN == 0:
                await asyncio.sleep(0)

    async def _reconcile(self, key: ObjectKey) -> None:
        structlog.contextvars.bind_contextvars(key=str(key), reconcile_id=next(self._numbers))
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = asyncio.timeout(self.spec.deadline.total_seconds())
        try:
            async with deadline:
                refusals = reconcile.collect_refusals()
                outcome = await self.spec.reconciler.reconcile(key)
        except asyncio.CancelledError as error:
            if is_cancellation_requested():
                raise
            self._failed(key, error, decide_requeue(error, overdue=False), loop.time() - started)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this key alone
            self._failed(key, error, decide_requeue(error, overdue=deadline.expired()), loop.time() - started)
        else:
            if refusals and isinstance(outcome, reconcile.Done):
                outcome = self._recheck(key)
            else:
                self._refused.pop(key, None)
            self._succeeded(key, outcome, loop.time() - started)

    def _recheck(self, key: ObjectKey) -> reconcile.RetryAfter:
        """Return when a refused key is looked at again: what it waits for may trigger nothing."""
        now = asyncio.get_running_loop().time()
        refused_for = timedelta(seconds=now - self._refused.setdefault(key, now))
        longest = min(max(refused_for, reconcile.FIRST_RECHECK), reconcile.LONGEST_RECHECK)
        return reconcile.RetryAfter(longest * self._random.uniform(0.8, 1.0))

    def _succeeded(self, key: ObjectKey, outcome: reconcile.Outcome, seconds: float) -> None:
        self.queue.forget(key)
        if isinstance(outcome, reconcile.RetryAfter):
            self.queue.add_after(key, outcome.delay.total_seconds())
            self._metrics.observe(ReconcileResult.RETRY_AFTER, seconds)
            self._log.debug(
                "reconciled", result=ReconcileResult.RETRY_AFTER.value, retry_in=outcome.delay.total_seconds()
            )
        else:
            self._metrics.observe(ReconcileResult.DONE, seconds)
            self._log.debug("reconciled", result=ReconcileResult.DONE.value)

    def _failed(self, key: ObjectKey, error: BaseException, decision: RequeueDecision, seconds: float) -> None:
        self._metrics.observe(decision.result, seconds)
        facts: dict[str, Any] = {"result": decision.result.value, "error": str(error) or type(error).__name__}
        if decision.retry:
            delay = self.queue.retry(key, at_least=decision.at_least.total_seconds())
            facts |= {"failures": self.queue.failures(key), "retry_in": round(delay, 3)}
        else:
            self.queue.forget(key)
            self.queue.add_after(key, self._recheck(key).delay.total_seconds())
        if not decision.expected:
            self._log.error("reconcile failed", **facts, exc_info=error)
        elif decision.result is ReconcileResult.CONFLICT:
            self._log.debug("reconcile failed", **facts)  # a conflict: the next reconcile reads the new state
        else:
            self._log.warning("reconcile failed", **facts)


def _lane(key: ObjectKey) -> str:
    return key.namespace or key.name
