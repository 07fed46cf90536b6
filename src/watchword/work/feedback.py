"""Reads from an object what a work asks to be told about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from watchword.api.jsonpath import JsonPathError, find
from watchword.api.meta import Object, ObjectRef
from watchword.work.ignore_fields import normalize_json_path

MAX_TEXT_LENGTH = 1024
MAX_VALUES = 64

Read = Callable[[Object], Any]


def _status(*fields: str) -> Read:
    def read(obj: Object) -> Any:
        value: Any = obj.get("status")
        for field in fields:
            value = value.get(field) if isinstance(value, Mapping) else None
        return value

    return read


def _condition(type_: str) -> Read:
    def read(obj: Object) -> Any:
        rows = (obj.get("status") or {}).get("conditions") or ()
        return next((row.get("status") for row in rows if row.get("type") == type_), None)

    return read


WELL_KNOWN_VALUES: dict[tuple[str, str], dict[str, Read]] = {
    ("apps", "deployments"): {
        "ReadyReplicas": _status("readyReplicas"),
        "Replicas": _status("replicas"),
        "AvailableReplicas": _status("availableReplicas"),
    },
    ("apps", "daemonsets"): {
        "NumberReady": _status("numberReady"),
        "DesiredNumberScheduled": _status("desiredNumberScheduled"),
        "NumberAvailable": _status("numberAvailable"),
    },
    ("batch", "jobs"): {"JobComplete": _condition("Complete"), "JobSucceeded": _status("succeeded")},
    ("", "pods"): {"PodReady": _condition("Ready"), "PodPhase": _status("phase")},
}
"""What every controller reports about these kinds, under the names that add-ons look for."""


class Feedback(Struct, frozen=True):
    """The values that could be read, and what could not."""

    values: tuple[Object, ...] = ()
    troubles: tuple[str, ...] = ()


def read_feedback(obj: Object, rules: Iterable[Mapping[str, Any]], target: ObjectRef) -> Feedback:
    """Read everything that the rules ask for; a value that is not there yet is no trouble."""
    found: dict[str, Object] = {}
    troubles: list[str] = []
    for rule in rules:
        for name, value in _read_rule(obj, rule, target, troubles):
            row = field_value(value)
            if row is not None:
                found.setdefault(name, {"name": name, "fieldValue": row})
            elif value is not None:
                troubles.append(f"{name} is not a single integer, string or boolean of moderate size")
    return Feedback(tuple(found.values())[:MAX_VALUES], tuple(troubles))


def _read_rule(
    obj: Object, rule: Mapping[str, Any], target: ObjectRef, troubles: list[str]
) -> Iterable[tuple[str, Any]]:
    if rule.get("type") == "WellKnownStatus":
        known = WELL_KNOWN_VALUES.get((target.resource.group, target.resource.plural))
        if known is None:
            troubles.append(f"there are no well-known values of {target.resource.group_resource}: use JSONPaths")
        for name, read in (known or {}).items():
            yield name, read(obj)
        return
    if rule.get("type") != "JSONPaths":
        troubles.append(f"feedback of type {str(rule.get('type'))[:40]!r} is not supported")
        return
    for row in rule.get("jsonPaths") or ():
        yield from _read_path(obj, row, target, troubles)


def _read_path(
    obj: Object, row: Mapping[str, Any], target: ObjectRef, troubles: list[str]
) -> Iterable[tuple[str, Any]]:
    name, path = str(row.get("name") or ""), str(row.get("path") or "")
    if row.get("version") not in (None, "", target.resource.version):
        return  # meant for another version of the kind
    try:
        values = find(without_secrets(obj, target), normalize_json_path(path))
    except JsonPathError as trouble:
        troubles.append(f"the path of {name} is not understood: {trouble}")
        return
    if len(values) > 1:
        troubles.append(f"the path of {name} leads to {len(values)} values instead of one")
    elif values:
        yield name, values[0]


def without_secrets(obj: Object, target: ObjectRef) -> Object:
    """Leave out what a Secret holds: a work must not carry it to the hub."""
    if target.resource.group_resource != "secrets":
        return obj
    annotations = {"annotations": None}  # some tools keep a copy of the whole object there
    return {"metadata": {**obj["metadata"], **annotations}, "type": obj.get("type")}


def field_value(value: Any) -> Object | None:
    """Return a value as the status of a work shows it; None when it cannot."""
    match value:
        case bool():
            return {"type": "Boolean", "boolean": value}
        case int() if -(2**63) <= value < 2**63:
            return {"type": "Integer", "integer": value}
        case str() if len(value) <= MAX_TEXT_LENGTH:
            return {"type": "String", "string": value}
        case _:
            return None
