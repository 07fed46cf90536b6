"""Columns of tables: their cells, and those that `kubectl get` shows for kinds without workloads."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339
from watchword.apiserver.model import Column

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
    """A column shown by `-o wide` alone."""
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


def _param_kind(policy: Object, _: datetime) -> str:
    kind = at(policy, "spec.paramKind")
    return f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}" if kind else "<unset>"


def _param_ref(binding: Object, _: datetime) -> str:
    ref = at(binding, "spec.paramRef") or {}
    return f"{ref.get('namespace') or '*'}/{ref['name']}" if ref.get("name") else "<unset>"


POLICY = (NAME, Column("Validations", size("spec.validations"), type="integer"), Column("ParamKind", _param_kind), AGE)
POLICY_BINDING = (NAME, Column("PolicyName", text("spec.policyName")), Column("ParamRef", _param_ref), AGE)


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
