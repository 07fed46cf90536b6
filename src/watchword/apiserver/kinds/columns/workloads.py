"""Columns of deployments, replica sets, jobs and cron jobs."""

from __future__ import annotations

from datetime import datetime

from watchword.api.meta import Object, is_deleting
from watchword.api.time import parse_rfc3339
from watchword.apiserver.duration import human_duration
from watchword.apiserver.kinds.columns.cells import AGE, NAME, Cell, at, number, since, size, text, wide
from watchword.apiserver.kinds.selectors import printed_selector
from watchword.apiserver.model import Column

_JOB_CONDITIONS = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _joined(path: str, name: str) -> Cell:
    return lambda obj, _: ",".join(str(each.get(name) or "") for each in at(obj, path) or ())


def _pods(template: str, selector: str, *, none: str = "") -> tuple[Column, ...]:
    return (
        wide("Containers", _joined(f"{template}.spec.containers", "name")),
        wide("Images", _joined(f"{template}.spec.containers", "image")),
        wide("Selector", lambda obj, _: printed_selector(at(obj, selector)) or none),
    )


def _ready(deployment: Object, _: datetime) -> str:
    return f"{at(deployment, 'status.readyReplicas') or 0}/{at(deployment, 'spec.replicas') or 0}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _ready),
    Column("Up-to-date", number("status.updatedReplicas")),
    Column("Available", number("status.availableReplicas")),
    AGE,
    *_pods("spec.template", "spec.selector"),
)
REPLICA_SET = (
    NAME,
    Column("Desired", number("spec.replicas"), type="integer"),
    Column("Current", number("status.replicas"), type="integer"),
    Column("Ready", number("status.readyReplicas"), type="integer"),
    AGE,
    *_pods("spec.template", "spec.selector", none="<none>"),
)


def _job_status(job: Object, _: datetime) -> str:
    conditions = at(job, "status.conditions") or ()
    held = {each.get("type") for each in conditions if each.get("status") == "True"}
    for final in ("Complete", "Failed"):
        if final in held:
            return final
    if is_deleting(job):
        return "Terminating"
    return next((condition for condition in _JOB_CONDITIONS if condition in held), "Running")


def _completions(job: Object, _: datetime) -> str:
    succeeded, wanted = at(job, "status.succeeded") or 0, at(job, "spec.completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = at(job, "spec.parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    started = parse_rfc3339(at(job, "status.startTime") or "")
    ended = parse_rfc3339(at(job, "status.completionTime") or "")
    return human_duration((ended or now) - started) if started else ""


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _job_duration),
    AGE,
    *_pods("spec.template", "spec.selector", none="<none>"),
)


def _suspended(cron_job: Object, _: datetime) -> str:
    suspended = at(cron_job, "spec.suspend")
    return "<unset>" if suspended is None else str(bool(suspended))


CRON_JOB = (
    NAME,
    Column("Schedule", text("spec.schedule")),
    Column("Timezone", text("spec.timeZone", "<none>")),
    Column("Suspend", _suspended, type="boolean"),
    Column("Active", size("status.active"), type="integer"),
    Column("Last Schedule", since("status.lastScheduleTime", "<none>")),
    AGE,
    *_pods("spec.jobTemplate.spec.template", "spec.jobTemplate.spec.selector", none="<none>"),
)
