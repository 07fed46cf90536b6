"""Pods, deployments, jobs and cron jobs: what the server fills in and refuses beyond their tables."""

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from watchword.api.meta import Object
from watchword.apiserver.kinds.cron import BadSchedule, parse_schedule
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.field_errors import forbidden, invalid, required
from watchword.apiserver.serving.model import FieldError, Operation

_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_UPDATE_REFUSAL = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_required(operation: Operation) -> list[FieldError]:
    spec = (operation.new or {}).get("spec") or {}
    return list(_missing(spec, operation.kind.schema.properties["spec"], "spec"))


def _missing(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        yield from (required(f"{path}.{name}") for name in schema.required if value.get(name) in (None, "", []))
        for name, item in value.items():
            yield from _missing(item, schema.field(name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _missing(item, schema.item, f"{path}[{index}]")


def validate_pod(operation: Operation) -> list[FieldError]:
    """Validate the spec; of a stored pod little more than its images may change."""
    found = validate_required(operation)
    if operation.old is None or operation.subresource:
        return found
    if _fixed((operation.new or {}).get("spec") or {}) != _fixed(operation.old.get("spec") or {}):
        found.append(forbidden("spec", _UPDATE_REFUSAL))
    return found


def _fixed(spec: Object) -> Object:
    kept = {name: value for name, value in spec.items() if name not in _CHANGEABLE}
    for group in ("containers", "initContainers"):
        kept[group] = [{**container, "image": ""} for container in spec.get(group) or ()]
    return kept


def default_workload(obj: Object) -> None:
    """Fill in what depends on other fields: the pull policy of images, the limits of a rolling update."""
    spec: Object = obj["spec"]
    if (spec.get("strategy") or {}).get("type") == "RollingUpdate":
        spec["strategy"].setdefault("rollingUpdate", {"maxUnavailable": "25%", "maxSurge": "25%"})
    job = (spec.get("jobTemplate") or obj)["spec"]
    pod = job["template"]["spec"] if "template" in job else job
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        name, _, digest = (container.get("image") or "").partition("@")
        is_fixed = digest or name.rpartition("/")[2].partition(":")[2] not in ("", "latest")
        container.setdefault("imagePullPolicy", "IfNotPresent" if is_fixed else "Always")


def default_job(job: Object) -> None:
    """Fill what the template of a CronJob leaves open."""
    default_workload(job)
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for name, value in (("parallelism", 1), ("backoffLimit", 6), ("suspend", False), ("manualSelector", False)):
        spec.setdefault(name, value)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")


def prepare_job(operation: Operation) -> None:
    """Bind a new job to its pods by its UID, unless its author chose the selector."""
    job = operation.new
    if job is None or operation.old is not None or job["spec"]["manualSelector"]:
        return
    metadata, template = job["metadata"], job["spec"]["template"]["metadata"]
    uid, name = metadata["uid"], operation.key.name
    shared = not metadata.get("labels") or metadata["labels"] == template.get("labels")
    labels = {_CONTROLLER_UID: uid, "batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}
    template["labels"] = {**(template.get("labels") or {}), **labels}
    if shared:
        metadata["labels"] = dict(template["labels"])
    selector = job["spec"].setdefault("selector", {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _CONTROLLER_UID: uid}


def validate_cron_job(operation: Operation) -> list[FieldError]:
    """Validate what the controller reads: the schedule and its time zone."""
    found, spec = validate_required(operation), (operation.new or {}).get("spec") or {}
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    try:
        parse_schedule(schedule or "* * * * *")  # an absent one is reported as missing
    except BadSchedule as problem:
        found.append(invalid("spec.schedule", schedule, str(problem)))
    try:
        ZoneInfo(zone or "Etc/UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        found.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    return found
