"""Runs Jobs of one pod, and starts those of CronJobs; Jobs of several pods and suspended ones are stored only."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from watchword.api.conditions import Condition, is_true, merge_condition
from watchword.api.meta import Object, ObjectKey, is_deleting, uid_of
from watchword.api.resources import CRON_JOBS, JOBS, PODS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.apiserver.controllers.worker import create_if_absent, delete_if_unchanged, update_status
from watchword.apiserver.kinds.cron import parse_schedule
from watchword.apiserver.node.pod_factory import PodFactory, WorkloadController, controlled_metadata, is_active
from watchword.apiserver.serving.model import Now

RETRY_AFTER = timedelta(seconds=10)  # doubled by each failure
_PAST = timedelta(days=1)  # how far back a missed time is looked for
_SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class JobDecision(Struct, frozen=True):
    """What is to be done about a job."""

    end: Condition | None = None  # Complete or Failed
    start: bool = False
    look_again: float | None = None


def decide_job(job: Object, pods: Sequence[Object], *, now: datetime) -> JobDecision:
    spec, start = job["spec"], (job.get("status") or {}).get("startTime")
    failed = sum(_phase(pod) == "Failed" for pod in pods)
    if failed > int(spec.get("backoffLimit", 6)):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if any(_phase(pod) == "Succeeded" for pod in pods):
        message = "Reached expected number of succeeded pods"
        return JobDecision(Condition.true("Complete", "CompletionsReached", message))
    left = None
    if spec.get("activeDeadlineSeconds") is not None and start:
        left = float(spec["activeDeadlineSeconds"]) - (now - (parse_rfc3339(start or "") or now)).total_seconds()
        if left <= 0:
            return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
    if any(map(is_active, pods)):
        return JobDecision(look_again=left)
    latest = max(((parse_rfc3339(pod["metadata"].get("creationTimestamp") or "") or now) for pod in pods), default=now)
    wait = (latest + RETRY_AFTER * 2 ** min(failed - 1, 6) - now).total_seconds() if failed else 0.0
    return JobDecision(look_again=wait) if wait > 0 else JobDecision(start=True, look_again=left)


def _failed(reason: str, message: str) -> JobDecision:
    return JobDecision(Condition.true("Failed", reason, message))


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_finished(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def is_run(job: Object) -> bool:
    spec = job["spec"]
    return spec.get("completions") == spec.get("parallelism") == 1 and not spec.get("suspend")


class JobController(WorkloadController):
    """Starts the pod of a job, again when it fails, and reports how it ends."""

    resource = JOBS
    controlled = PODS

    pod_factory: PodFactory
    now: Now

    async def reconcile(self, found: Object) -> float | None:
        if is_finished(found) or not is_run(found):
            return None
        decision = decide_job(found, self.controlled_by(found), now=self.now())
        wait = decision.look_again
        if decision.start:
            wait = await self.pod_factory.start(found) or wait
        if decision.end is not None:
            for pod in filter(is_active, self.controlled_by(found)):
                await delete_if_unchanged(self.registry, PODS, pod)
        await self._report(found, decision.end)
        return wait

    async def _report(self, job: Object, end: Condition | None) -> None:
        pods, old, now = self.controlled_by(job), job.get("status") or {}, self.now()
        active = [pod for pod in pods if is_active(pod)]
        numbers = {
            "active": len(active),
            "succeeded": sum(_phase(pod) == "Succeeded" for pod in pods),
            "failed": sum(_phase(pod) == "Failed" for pod in pods),
        }
        status: Object = {
            **{name: value for name, value in old.items() if name not in numbers},
            **{name: number for name, number in numbers.items() if number},
            "ready": sum(is_true(pod, "Ready") for pod in active),
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "startTime": old.get("startTime") or rfc3339(now),
        }
        if end is not None:
            first = "SuccessCriteriaMet" if end.type == "Complete" else "FailureTarget"
            rows: list[Object] = []
            for condition in (Condition.true(first, end.reason, end.message), end):
                rows = merge_condition(rows, condition, now=now) or rows
            status["conditions"] = [{"lastProbeTime": row["lastTransitionTime"], **row} for row in rows]
            if end.type == "Complete":
                status["completionTime"] = rfc3339(now)
        await update_status(self.registry, JOBS, job, status)


class CronJobController(WorkloadController):
    """Creates the jobs of a CronJob when their time comes, and deletes old ones."""

    resource = CRON_JOBS
    controlled = JOBS

    now: Now

    async def reconcile(self, found: Object) -> float | None:
        jobs, spec, now = self.controlled_by(found), found["spec"], self.now()
        for job in choose_history(jobs, spec):
            await delete_if_unchanged(self.registry, JOBS, job)
        missed, following = decide_schedule(found, now=now)
        is_blocked = spec.get("concurrencyPolicy") == "Forbid" and not all(map(is_finished, jobs))
        if spec.get("suspend") or is_blocked:
            missed = None
        if missed is not None:  # the job is there already when a crash prevented the status update
            await create_if_absent(self.registry, JOBS, job_from(found, missed))
        await self._report(found, missed)
        return max(0.01, (following - now).total_seconds()) if following is not None else None

    async def _report(self, cron_job: Object, started: datetime | None) -> None:
        old, jobs = cron_job.get("status") or {}, self.controlled_by(cron_job)
        ends = [(job.get("status") or {}).get("completionTime") for job in jobs]
        status: Object = {
            "lastScheduleTime": rfc3339(started.astimezone(UTC)) if started else old.get("lastScheduleTime"),
            "lastSuccessfulTime": max(filter(None, [*ends, old.get("lastSuccessfulTime")]), default=None),
            "active": [_reference(job) for job in jobs if not is_finished(job) and not is_deleting(job)],
        }
        status = {name: value for name, value in status.items() if value}
        await update_status(self.registry, CRON_JOBS, cron_job, status)


def decide_schedule(cron_job: Object, *, now: datetime) -> tuple[datetime | None, datetime | None]:
    spec, status = cron_job["spec"], cron_job.get("status") or {}
    schedule = parse_schedule(spec["schedule"])
    zone = ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
    last = parse_rfc3339(status.get("lastScheduleTime") or cron_job["metadata"].get("creationTimestamp") or "") or now
    missed, following = None, schedule.next_after(max(last, now - _PAST).astimezone(zone))
    while following is not None and following <= now:
        missed, following = following, schedule.next_after(following)
    return missed, following


def choose_history(jobs: Sequence[Object], spec: Object) -> list[Object]:
    gone: list[Object] = []
    for outcome, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        rows = [job for job in jobs if is_true(job, outcome)]
        rows.sort(key=lambda job: str(job["metadata"].get("creationTimestamp")))
        gone += rows[: max(0, len(rows) - int(spec.get(limit, 1)))]
    return gone


def job_from(cron_job: Object, when: datetime) -> Object:
    """Return the job of one scheduled time, which is part of its name, so that no time is run twice."""
    template = cron_job["spec"]["jobTemplate"]
    name = f"{cron_job['metadata']['name']}-{int(when.timestamp()) // 60}"
    metadata = controlled_metadata(cron_job, template)
    metadata["annotations"][_SCHEDULED_AT] = rfc3339(when.astimezone(UTC))
    return JOBS.manifest(
        ObjectKey(cron_job["metadata"]["namespace"], name), metadata=metadata, spec=dict(template["spec"])
    )


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    names = {name: metadata[name] for name in ("namespace", "name", "resourceVersion")}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **names, "uid": uid_of(job)}
