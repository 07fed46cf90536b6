"""Columns of tables: their cells, and those that `kubectl get` shows for the built-in kinds."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from watchword.api.meta import Object, is_deleting
from watchword.api.time import parse_rfc3339
from watchword.apiserver.serving.model import Column

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"


def human_duration(duration: timedelta) -> str:
    """Write a duration with one or two units, coarser the longer it is."""
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    for limit, unit, step, smaller, substep in _STEPS:
        if seconds < limit:
            rest = seconds % step // substep if smaller else 0
            return f"{seconds // step}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{seconds // _YEAR}y"


# upper limit in seconds, unit, its length, smaller unit or none, its length
_STEPS = (
    (2 * _MINUTE, "s", 1, "", 1),
    (10 * _MINUTE, "m", _MINUTE, "s", 1),
    (3 * _HOUR, "m", _MINUTE, "", 1),
    (8 * _HOUR, "h", _HOUR, "m", _MINUTE),
    (2 * _DAY, "h", _HOUR, "", 1),
    (8 * _DAY, "d", _DAY, "h", _HOUR),
    (2 * _YEAR, "d", _DAY, "", 1),
    (8 * _YEAR, "y", _YEAR, "d", _DAY),
)


def age(text: str | None, now: datetime) -> str:
    instant = parse_rfc3339(text) if text else None
    return UNKNOWN if instant is None else human_duration(now - instant)


Cell = Callable[[Object, datetime], Any]


def at(obj: Object, path: str) -> Any:
    """Return the value at a dotted path, None when any part is absent."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text(path: str, absent: str = "") -> Cell:
    return lambda obj, _: at(obj, path) or absent


def number(path: str) -> Cell:
    return lambda obj, _: at(obj, path) or 0


def size(path: str) -> Cell:
    return lambda obj, _: len(at(obj, path) or ())


def since(path: str, absent: str = "<unknown>") -> Cell:
    return lambda obj, now: age(at(obj, path), now) if at(obj, path) else absent


def wide(name: str, cell: Cell, description: str = "") -> Column:
    return Column(name, cell, description=description, priority=1)


NAME = Column("Name", text("metadata.name"), format="name", description="unique within its namespace")
AGE = Column("Age", since("metadata.creationTimestamp"), description="time since it was created")
CREATED_AT = Column("Created At", text("metadata.creationTimestamp"), type="date", description="when it was created")

PLAIN = (NAME, AGE)
DATED = (NAME, CREATED_AT)


def _role(binding: Object, _: datetime) -> str:
    return f"{at(binding, 'roleRef.kind') or ''}/{at(binding, 'roleRef.name') or ''}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Object, _: datetime) -> str:
        chosen = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        return ", ".join(_subject(subject) for subject in chosen)

    return cell


def _subject(subject: Object) -> str:
    name = str(subject.get("name") or "")
    if subject.get("kind") == "ServiceAccount" and subject.get("namespace"):
        return f"{subject['namespace']}/{name}"
    return name


BINDING = (
    NAME,
    Column("Role", _role),
    AGE,
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)


def _requested_duration(csr: Object, _: datetime) -> str:
    seconds = at(csr, "spec.expirationSeconds")
    return "<none>" if seconds is None else human_duration(timedelta(seconds=seconds))


def _condition(csr: Object, _: datetime) -> str:
    types = {condition.get("type") for condition in at(csr, "status.conditions") or ()}
    shown = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        shown += ",Failed"
    if at(csr, "status.certificate"):
        shown += ",Issued"
    return shown


CERTIFICATE_SIGNING_REQUEST = (
    NAME,
    AGE,
    Column("SignerName", text("spec.signerName", "<none>")),
    Column("Requestor", text("spec.username")),
    Column("RequestedDuration", _requested_duration),
    Column("Condition", _condition),
)


POLICY = (NAME, Column("Validations", size("spec.validations"), type="integer"), AGE)
POLICY_BINDING = (NAME, Column("PolicyName", text("spec.policyName")), AGE)
NAMESPACE = (NAME, Column("Status", text("status.phase")), AGE)
SECRET = (NAME, Column("Type", text("type")), Column("Data", size("data")), AGE)
CONFIG_MAP = (NAME, Column("Data", lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())), AGE)
LEASE = (NAME, Column("Holder", text("spec.holderIdentity")), AGE)


def _first_seen(event: Object, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: datetime) -> str:
    observed = at(event, "series.lastObservedTime") if event.get("series") else event.get("lastTimestamp")
    if observed or event.get("series"):
        return age(observed, now)
    return _first_seen(event, now)


def _count(event: Object, _: datetime) -> int:
    if event.get("series"):
        return at(event, "series.count") or 0
    return event.get("count") or 1


def _object(event: Object, _: datetime) -> str:
    kind, name = str(at(event, "involvedObject.kind") or "").lower(), at(event, "involvedObject.name")
    return f"{kind}/{name}" if name else kind


def _source(event: Object, _: datetime) -> str:
    component = at(event, "source.component") or event.get("reportingComponent") or ""
    host = at(event, "source.host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", text("type")),
    Column("Reason", text("reason")),
    Column("Object", _object),
    wide("Subobject", text("involvedObject.fieldPath")),
    wide("Source", _source),
    Column("Message", lambda event, _: str(event.get("message") or "").strip()),
    wide("First Seen", _first_seen),
    wide("Count", _count),
    Column("Name", text("metadata.name"), format="name", priority=1),
)


def _pod_status(pod: Object, _: datetime) -> str:
    """Return why a container does not run, or the phase of the pod."""
    if is_deleting(pod):
        return "Terminating"
    shown = at(pod, "status.reason") or at(pod, "status.phase") or ""
    for container in at(pod, "status.containerStatuses") or ():
        waiting, ended = at(container, "state.waiting") or {}, at(container, "state.terminated")
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif ended is not None:
            shown = ended.get("reason") or f"ExitCode:{ended.get('exitCode') or 0}"
    return str(shown)


def _containers(pod: Object, field: str) -> int:
    return sum(int(each.get(field) or 0) for each in at(pod, "status.containerStatuses") or ())


POD = (
    NAME,
    Column("Ready", lambda pod, _: f"{_containers(pod, 'ready')}/{len(at(pod, 'spec.containers') or ())}"),
    Column("Status", _pod_status),
    Column("Restarts", lambda pod, _: str(_containers(pod, "restartCount"))),
    AGE,
    wide("IP", text("status.podIP", "<none>")),
    wide("Node", text("spec.nodeName", "<none>")),
)


def _ports(service: Object, _: datetime) -> str:
    ports = at(service, "spec.ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in ports) or "<none>"


SERVICE = (
    NAME,
    Column("Type", text("spec.type")),
    Column("Cluster-IP", text("spec.clusterIP", "<none>")),
    Column("Port(s)", _ports),
    AGE,
)


def _true_conditions(obj: Object) -> list[str]:
    return [str(each.get("type")) for each in at(obj, "status.conditions") or () if each.get("status") == "True"]


NODE = (
    NAME,
    Column("Status", lambda node, _: "Ready" if "Ready" in _true_conditions(node) else "NotReady"),
    AGE,
    Column("Version", text("status.nodeInfo.kubeletVersion")),
)
DEPLOYMENT = (
    NAME,
    Column("Ready", lambda obj, _: f"{at(obj, 'status.readyReplicas') or 0}/{at(obj, 'spec.replicas') or 0}"),
    Column("Up-to-date", number("status.updatedReplicas")),
    Column("Available", number("status.availableReplicas")),
    AGE,
)
REPLICA_SET = (
    NAME,
    Column("Desired", number("spec.replicas"), type="integer"),
    Column("Current", number("status.replicas"), type="integer"),
    Column("Ready", number("status.readyReplicas"), type="integer"),
    AGE,
)


def _job_status(job: Object, _: datetime) -> str:
    return next((each for each in ("Complete", "Failed") if each in _true_conditions(job)), "Running")


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", lambda job, _: f"{at(job, 'status.succeeded') or 0}/{at(job, 'spec.completions') or 1}"),
    AGE,
)
CRON_JOB = (
    NAME,
    Column("Schedule", text("spec.schedule")),
    Column("Suspend", lambda cron_job, _: str(bool(at(cron_job, "spec.suspend"))), type="boolean"),
    Column("Active", size("status.active"), type="integer"),
    Column("Last Schedule", since("status.lastScheduleTime", "<none>")),
    AGE,
)
