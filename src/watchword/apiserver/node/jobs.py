"""Runs jobs to completion: the requested number of pods, retried after failures up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.conditions import Condition, is_true, merge_condition
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.resources import JOBS, PODS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.apiserver.controllers.worker import Watches, Worker, delete_if_unchanged
from watchword.apiserver.model import ApiError, Now, Registry
from watchword.apiserver.node.events import NodeEvents
from watchword.apiserver.node.pod_factory import PodFactory, controlled_by, controller_of, is_active
from watchword.apiserver.node.timestamps import parse_timestamp, transition_time

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=10)
LOOK_AGAIN = 5.0


class PodCounts(Struct, frozen=True):
    """A job's pods in numbers."""

    active: int
    ready: int
    succeeded: int
    failed: int
    last_failure: datetime | None


class JobDecision(Struct, frozen=True):
    """What is to be done about a job."""

    end: Condition | None = None  # Complete or Failed
    start: int = 0  # pods to make now
    look_again: float | None = None


def decide_job(job: Object, counts: PodCounts, *, now: datetime) -> JobDecision:
    """Decide from a job's spec and its pods alone."""
    spec = job["spec"]
    completions = spec.get("completions")
    if counts.failed > int(spec.get("backoffLimit", 6)):
        message = "Job has reached the specified backoff limit"
        return JobDecision(Condition.true("Failed", "BackoffLimitExceeded", message))
    enough = counts.succeeded >= int(completions) if completions is not None else counts.succeeded and not counts.active
    if enough:
        return JobDecision(
            Condition.true("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        )
    left = _time_left(job, now)
    if left is not None and left <= 0:
        message = "Job was active longer than specified deadline"
        return JobDecision(Condition.true("Failed", "DeadlineExceeded", message))
    if spec.get("suspend"):
        return JobDecision()
    missing = int(completions) - counts.succeeded if completions is not None else int(not counts.succeeded)
    start = min(int(spec.get("parallelism", 1)), missing) - counts.active
    wait = backoff_left(counts, now)
    if start > 0 and wait > 0:
        return JobDecision(look_again=wait)
    return JobDecision(start=max(0, start), look_again=left)


def _time_left(job: Object, now: datetime) -> float | None:
    limit, start = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if limit is None or start is None:
        return None
    return float(limit) - (now - parse_timestamp(start, now)).total_seconds()


def backoff_left(counts: PodCounts, now: datetime) -> float:
    """Return how many seconds to wait before another pod is tried."""
    if counts.last_failure is None or not counts.failed:
        return 0.0
    delay: timedelta = min(FIRST_BACKOFF * 2 ** min(counts.failed - 1, 10), LONGEST_BACKOFF)
    return max(0.0, (counts.last_failure + delay - now).total_seconds())


def count_pods(pods: Sequence[Object]) -> PodCounts:
    """Count the pods of a job."""
    active = [pod for pod in pods if is_active(pod)]
    failed = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
    return PodCounts(
        active=len(active),
        ready=sum(1 for pod in active if is_true(pod, "Ready")),
        succeeded=sum(1 for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"),
        failed=len(failed),
        last_failure=max(filter(None, map(_finished_at, failed)), default=None),
    )


def _finished_at(pod: Object) -> datetime | None:
    rows = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [((row.get("state") or {}).get("terminated") or {}).get("finishedAt") for row in rows]
    return max(filter(None, (parse_rfc3339(end) for end in ends if end)), default=None)


def is_finished(job: Object) -> bool:
    """Whether a job came to an end."""
    return is_true(job, "Complete") or is_true(job, "Failed")


class JobController:
    """Triggered by jobs and their pods."""

    def __init__(self, registry: Registry, pod_factory: PodFactory, events: NodeEvents, now: Now) -> None:
        self.registry = registry
        self.pod_factory = pod_factory
        self.events = events
        self.now = now
        self.worker: Worker[ObjectKey] = Worker("jobs", self.sync)

    def watches(self) -> Watches:
        """Subscribe to jobs and pods."""
        return {JOBS: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)), PODS: self._pod_changed}

    def _pod_changed(self, _change: str, new: Object) -> None:
        owner = controller_of(new, "Job")
        if owner is not None:
            self.worker.enqueue(owner)

    async def sync(self, key: ObjectKey) -> float | None:
        """Bring one job a step further."""
        job = self.registry.get(JOBS, key)
        if job is None or is_deleting(job):
            return None
        if is_finished(job):
            return await self._expire(job)
        counts = count_pods(controlled_by(self.registry, PODS, job))
        verdict = decide_job(job, counts, now=self.now())
        wait = verdict.look_again
        try:
            for _ in range(verdict.start):
                await self.pod_factory.make(job, job["spec"]["template"])
        except ApiError as refusal:
            await self.events.warn(job, "FailedCreate", f"Error creating: {refusal.message}")
            wait = LOOK_AGAIN
        if verdict.end is not None or job["spec"].get("suspend"):
            for pod in [pod for pod in controlled_by(self.registry, PODS, job) if is_active(pod)]:
                await delete_if_unchanged(self.registry, PODS, pod)
        await self._report(job, verdict)
        return wait

    async def _report(self, job: Object, verdict: JobDecision) -> None:
        counts, old, now = count_pods(controlled_by(self.registry, PODS, job)), job.get("status") or {}, self.now()
        suspended = bool(job["spec"].get("suspend"))
        numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
        status: Object = {**old, "ready": counts.ready, "terminating": 0, "uncountedTerminatedPods": {}}
        for name, number in numbers.items():
            status.pop(name, None)
            if number:
                status[name] = number
        if not suspended and not old.get("startTime"):
            status["startTime"] = rfc3339(now)
        rows: list[Object] = old.get("conditions") or []
        for condition in _conditions(verdict, rows, suspended=suspended):
            rows = merge_condition(rows, condition, now=now) or rows
        if rows:
            status["conditions"] = [{"lastProbeTime": row["lastTransitionTime"], **row} for row in rows]
        if verdict.end is not None and verdict.end.type == "Complete":
            status["completionTime"] = rfc3339(now)
        if status != old:
            await self.registry.update(JOBS, {**job, "status": status}, "status")

    async def _expire(self, job: Object) -> float | None:
        life = job["spec"].get("ttlSecondsAfterFinished")
        if life is None:
            return None
        rows = (job.get("status") or {}).get("conditions") or ()
        ended = transition_time(rows, "Complete" if is_true(job, "Complete") else "Failed", self.now())
        left = float(life) - (self.now() - ended).total_seconds()
        if left > 0:
            return left
        await delete_if_unchanged(self.registry, JOBS, job)
        return None


def _conditions(verdict: JobDecision, rows: list[Object], *, suspended: bool) -> list[Condition]:
    said = any(row.get("type") == "Suspended" for row in rows)
    found = []
    if suspended:
        found.append(Condition.true("Suspended", "JobSuspended", "Job suspended"))
    elif said:
        found.append(Condition.false("Suspended", "JobResumed", "Job resumed"))
    if verdict.end is not None:
        herald = "SuccessCriteriaMet" if verdict.end.type == "Complete" else "FailureTarget"
        found += [Condition.true(herald, verdict.end.reason, verdict.end.message), verdict.end]
    return found
