"""Events: one stored object, served in two groups under two sets of names."""

from __future__ import annotations

from collections.abc import Iterator

from watchword.api.meta import Object
from watchword.api.resources import CORE_EVENTS, EVENTS
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.columns.cells import Cell
from watchword.apiserver.kinds.names import qualified_name
from watchword.apiserver.model import FieldError, Operation

# core name to events.k8s.io name, where they differ
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _NAMES.items()}
_ALWAYS_IN_CORE: Object = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def to_core(event: Object) -> Object:
    """Return an events.k8s.io Event as the core Event that is stored."""
    renamed = {_CORE_NAMES.get(key, key): value for key, value in event.items()}
    return {**_ALWAYS_IN_CORE, **renamed, "apiVersion": CORE_EVENTS.api_version}


def from_core(event: Object) -> Object:
    """Return a stored core Event as events.k8s.io shows it."""
    renamed = {_NAMES.get(key, key): value for key, value in event.items()}
    for name in ("reportingController", "reportingInstance"):
        if not renamed.get(name):
            renamed.pop(name, None)
    return {**renamed, "apiVersion": EVENTS.api_version}


def source(event: Object) -> str:
    """Return what the field selector `source` compares."""
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def on_core(cell: Cell) -> Cell:
    """Return a cell of core events for events of the other group."""
    return lambda event, now: cell(to_core(event), now)


def validate_event(operation: Operation) -> list[FieldError]:
    """Validate an event of either group; new-style events need an event time and further fields."""
    event = operation.new or {}
    modern = operation.kind.resource.group == EVENTS.group
    core = to_core(event) if modern else event
    found = list(_namespace_errors(core))
    if core.get("eventTime"):
        found.extend(_reporter_errors(core, "reportingController" if modern else "reportingComponent"))
    if modern and operation.old is None:
        found.extend(_modern_errors(core))
    return found


def _namespace_errors(event: Object) -> Iterator[FieldError]:
    namespace = (event.get("metadata") or {}).get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    if event.get("eventTime"):
        wrong = not involved and namespace not in ("default", "kube-system")
    else:
        wrong = namespace != involved if involved else namespace not in ("", "default")
    if wrong:
        yield broken.invalid("involvedObject.namespace", involved, "does not match event.namespace")


def _reporter_errors(event: Object, controller: str) -> Iterator[FieldError]:
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        yield broken.required(controller)
    yield from (broken.invalid(controller, reporter, complaint) for complaint in qualified_name(reporter))
    for name in ("reportingInstance", "action", "reason"):
        value = event.get(name) or ""
        if not value:
            yield broken.required(name)
        if len(value) > 128:
            yield broken.invalid(name, "", "can have at most 128 characters")
    if len(event.get("message") or "") > 1024:
        yield broken.invalid("message", "", "can have at most 1024 characters")


def _modern_errors(event: Object) -> Iterator[FieldError]:
    series = event.get("series")
    if series is not None and (series.get("count") or 0) < 2:
        yield broken.invalid("series.count", "", "should be at least 2")
    if series is not None and not series.get("lastObservedTime"):
        yield broken.required("series.lastObservedTime")
    if not event.get("eventTime"):
        yield broken.required("eventTime")
    if event.get("type") not in ("Normal", "Warning"):
        yield broken.invalid("type", "", f"has invalid value: {event.get('type') or ''}")
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(name):
            yield broken.invalid(name, "", "needs to be unset")
