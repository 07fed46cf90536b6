"""Columns of namespaces, secrets, config maps, events and leases."""

from __future__ import annotations

from datetime import datetime

from watchword.api.meta import Object
from watchword.apiserver.duration import age
from watchword.apiserver.kinds.columns.cells import AGE, NAME, at, size, text, wide
from watchword.apiserver.model import Column

NAMESPACE = (NAME, Column("Status", text("status.phase")), AGE)
SECRET = (NAME, Column("Type", text("type")), Column("Data", size("data")), AGE)
CONFIG_MAP = (
    NAME,
    Column("Data", lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
    AGE,
)
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
