"""Starts jobs by the schedule of a cron job, and keeps a short history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, is_deleting, owner_reference, uid_of
from watchword.api.resources import CRON_JOBS, JOBS
from watchword.api.time import rfc3339
from watchword.apiserver.controllers.worker import Watches, Worker, delete_if_unchanged
from watchword.apiserver.kinds.cron import Schedule, parse_schedule
from watchword.apiserver.model import ApiError, Now, Registry
from watchword.apiserver.node.jobs import is_finished
from watchword.apiserver.node.pod_factory import controlled_by, controller_of
from watchword.apiserver.node.timestamps import parse_timestamp

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class ScheduleDecision(Struct, frozen=True):
    """When a cron job is next due, and the time it missed last, if any."""

    missed: datetime | None
    following: datetime | None


def decide_schedule(cron_job: Object, *, now: datetime) -> ScheduleDecision:
    """Find the latest time that has come since the last run, and the next one to come."""
    spec, status = cron_job["spec"], cron_job.get("status") or {}
    schedule = parse_schedule(spec["schedule"])
    zone = ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
    last = parse_timestamp(status.get("lastScheduleTime") or cron_job["metadata"].get("creationTimestamp"), now)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        last = max(last, now - timedelta(seconds=int(deadline)))
    missed, following = None, schedule.next_after(_close_to(schedule, last, now).astimezone(zone))
    while following is not None and following <= now:
        missed, following = following, schedule.next_after(following)
    return ScheduleDecision(missed, following)


def _close_to(schedule: Schedule, last: datetime, now: datetime) -> datetime:
    """Return an parse_timestamp from which few steps lead to now: after a long pause only the latest time matters."""
    span = timedelta(minutes=1)
    while now - span > last:
        due = schedule.next_after(now - span)
        if due is not None and due <= now:
            return now - span
        span *= 2
    return last


def choose_history(jobs: Sequence[Object], spec: Object) -> list[Object]:
    """Return the finished jobs beyond the history limits, oldest first."""
    gone: list[Object] = []
    for outcome, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        rows = sorted((job for job in jobs if is_true(job, outcome)), key=_started)
        keep = int(spec.get(limit, 1))
        gone += rows[: max(0, len(rows) - keep)]
    return gone


def _started(job: Object) -> str:
    return str((job.get("status") or {}).get("startTime") or job["metadata"].get("creationTimestamp"))


class CronJobController:
    """Triggered by cron jobs, by their jobs, and by time."""

    def __init__(self, registry: Registry, now: Now) -> None:
        self.registry = registry
        self.now = now
        self.worker: Worker[ObjectKey] = Worker("cron jobs", self.sync)

    def watches(self) -> Watches:
        """Subscribe to cron jobs and jobs."""
        return {CRON_JOBS: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)), JOBS: self._job_changed}

    def _job_changed(self, _change: str, new: Object) -> None:
        owner = controller_of(new, "CronJob")
        if owner is not None:
            self.worker.enqueue(owner)

    async def sync(self, key: ObjectKey) -> float | None:
        """Start what is due; return how long it is until the next."""
        cron_job = self.registry.get(CRON_JOBS, key)
        if cron_job is None or is_deleting(cron_job):
            return None
        jobs = controlled_by(self.registry, JOBS, cron_job)
        for job in choose_history(jobs, cron_job["spec"]):
            await delete_if_unchanged(self.registry, JOBS, job)
        now = self.now()
        due = decide_schedule(cron_job, now=now)
        started = None
        if due.missed is not None and not cron_job["spec"].get("suspend"):
            started = await self._start(cron_job, jobs, due.missed)
        await self._report(cron_job, started)
        if due.following is None or cron_job["spec"].get("suspend"):
            return None
        return max(0.01, (due.following - now).total_seconds())

    async def _start(self, cron_job: Object, jobs: list[Object], when: datetime) -> datetime | None:
        active = [job for job in jobs if not is_finished(job)]
        policy = cron_job["spec"].get("concurrencyPolicy")
        if active and policy == "Forbid":
            return None
        if policy == "Replace":
            for job in active:
                await delete_if_unchanged(self.registry, JOBS, job)
        try:
            await self.registry.create(JOBS, job_from(cron_job, when))
        except ApiError as refusal:
            if refusal.reason != "AlreadyExists":  # it was started before a crash prevented the status update
                raise
        return when

    async def _report(self, cron_job: Object, started: datetime | None) -> None:
        old = cron_job.get("status") or {}
        jobs = controlled_by(self.registry, JOBS, cron_job)
        status: Object = {name: old[name] for name in ("lastScheduleTime", "lastSuccessfulTime") if old.get(name)}
        if started is not None:
            status["lastScheduleTime"] = rfc3339(started.astimezone(UTC))
        ends = [(job.get("status") or {}).get("completionTime") for job in jobs if is_true(job, "Complete")]
        latest = max(filter(None, [*ends, old.get("lastSuccessfulTime")]), default=None)
        if latest:
            status["lastSuccessfulTime"] = latest
        active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        if active:
            status["active"] = [_reference(job) for job in active]
        if status != old:
            await self.registry.update(CRON_JOBS, {**cron_job, "status": status}, "status")


def job_from(cron_job: Object, when: datetime) -> Object:
    """Return the job of one scheduled time, which is part of its name, so that no time is run twice."""
    template = cron_job["spec"]["jobTemplate"]
    metadata = template.get("metadata") or {}
    minute = int(when.timestamp()) // 60
    key = ObjectKey(cron_job["metadata"]["namespace"], f"{cron_job['metadata']['name']}-{minute}")
    fields: Object = {
        "labels": dict(metadata.get("labels") or {}),
        "annotations": {**(metadata.get("annotations") or {}), SCHEDULED_AT: rfc3339(when.astimezone(UTC))},
        "ownerReferences": [owner_reference(cron_job, controller=True, block=True)],
    }
    return JOBS.manifest(key, metadata=fields, spec=dict(template["spec"]))


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": uid_of(job),
        "resourceVersion": metadata["resourceVersion"],
    }
