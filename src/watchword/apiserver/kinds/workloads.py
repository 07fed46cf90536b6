"""Deployments, replica sets, jobs and cron jobs: what the server fills in, and what it refuses."""

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from watchword.api.meta import Object, annotations_of
from watchword.apiserver.field_errors import forbidden, invalid, not_supported, required
from watchword.apiserver.kinds.cron import BadSchedule, parse_schedule
from watchword.apiserver.kinds.metadata import (
    immutable_errors,
    int_or_percent_errors,
    is_selected,
    metadata_errors,
    negative_errors,
    selector_errors,
)
from watchword.apiserver.kinds.pod_validation import pod_spec_errors
from watchword.apiserver.kinds.pods import default_pod_spec
from watchword.apiserver.model import FieldError, Operation

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_LONGEST_CRON_JOB_NAME = 52  # jobs append eleven characters
_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")


def default_deployment(deployment: Object) -> None:
    spec = deployment.setdefault("spec", {})
    for name, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        spec.setdefault(name, value)
    strategy = spec["strategy"] = spec.get("strategy") or {}
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    default_template(spec)


def prepare_deployment(operation: Operation) -> None:
    """Count a change of annotations as a new generation: it may request a rollout."""
    new, old = operation.new, operation.old
    if new is None or old is None or operation.subresource:
        return
    if annotations_of(new) != annotations_of(old):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def default_replica_set(replica_set: Object) -> None:
    spec = replica_set.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and not (replica_set.get("metadata") or {}).get("labels"):
        replica_set.setdefault("metadata", {})["labels"] = dict(labels)


def default_template(spec: Object) -> None:
    template = spec["template"] = spec.get("template") or {}
    template.setdefault("metadata", {})
    template["spec"] = template.get("spec") or {}
    default_pod_spec(template["spec"])


def validate_deployment(operation: Operation) -> list[FieldError]:
    spec = (operation.new or {}).get("spec") or {}
    found = list(negative_errors(spec, ("replicas",), "spec"))
    found.extend(_selector_errors(spec, "deployment"))
    found.extend(template_errors(spec, "spec"))
    found.extend(_strategy_errors(spec.get("strategy") or {}, "spec.strategy"))
    found.extend(negative_errors(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec"))
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and 0 <= deadline <= ready:
        found.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return [*found, *_selector_change(operation, spec)]


def validate_replica_set(operation: Operation) -> list[FieldError]:
    spec = (operation.new or {}).get("spec") or {}
    found = [
        *negative_errors(spec, ("replicas", "minReadySeconds"), "spec"),
        *_selector_errors(spec, "deployment"),
        *template_errors(spec, "spec"),
    ]
    return [*found, *_selector_change(operation, spec)]


def _selector_errors(spec: Object, word: str) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    malformed = list(selector_errors(selector, "spec.selector"))
    yield from malformed
    if not selector:
        yield invalid("spec.selector", selector, f"empty selector is invalid for {word}")
    elif malformed:
        yield invalid("spec.selector", selector, "invalid label selector")


def template_errors(spec: Object, path: str, *, restart: tuple[str, ...] = ("Always",)) -> Iterator[FieldError]:
    template, selector = spec.get("template") or {}, spec.get("selector")
    metadata = template.get("metadata") or {}
    labels: Any = metadata.get("labels")
    judged = selector is None or (selector and not list(selector_errors(selector, "")))
    if judged and not (selector and is_selected(labels or {}, selector)):
        yield invalid(f"{path}.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from metadata_errors(metadata, f"{path}.template.metadata")
    pod = template.get("spec") or {}
    yield from pod_spec_errors(pod, f"{path}.template.spec")
    policy = pod.get("restartPolicy")
    if policy in ("Always", "OnFailure", "Never") and policy not in restart:
        yield not_supported(f"{path}.template.spec.restartPolicy", policy, restart)


def _strategy_errors(strategy: Object, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind != "RollingUpdate":
        value = {"Type": kind, "RollingUpdate": rolling}
        yield not_supported(path, value, ("Recreate", "RollingUpdate"))
    elif rolling is not None:
        yield from _rolling_errors(rolling, f"{path}.rollingUpdate")


def _rolling_errors(rolling: Object, path: str) -> Iterator[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from int_or_percent_errors(unavailable, f"{path}.maxUnavailable")
    yield from int_or_percent_errors(surge, f"{path}.maxSurge")
    if unavailable in (0, "0%") and surge in (0, "0%"):
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if isinstance(unavailable, str) and unavailable[:-1].isdigit() and int(unavailable[:-1]) > 100:
        yield invalid(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%")


def _selector_change(operation: Operation, spec: Object) -> list[FieldError]:
    if operation.old is None:
        return []
    old = (operation.old.get("spec") or {}).get("selector")
    return immutable_errors(spec.get("selector"), old, "spec.selector")


def default_job(job: Object) -> None:
    spec = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for name, value in (("parallelism", 1), ("backoffLimit", 6), ("suspend", False), ("manualSelector", False)):
        spec.setdefault(name, value)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    default_template(spec)
    labels = spec["template"]["metadata"].get("labels")
    metadata = job.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def default_cron_job(cron_job: Object) -> None:
    spec = cron_job.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    for name, value in (("suspend", False), ("successfulJobsHistoryLimit", 3), ("failedJobsHistoryLimit", 1)):
        spec.setdefault(name, value)
    template = spec["jobTemplate"] = spec.get("jobTemplate") or {}
    template.setdefault("metadata", {})
    template["spec"] = template.get("spec") or {}
    default_template(template["spec"])


def prepare_job(operation: Operation) -> None:
    """Bind a new job to its pods by its UID, unless its author chose the selector."""
    job = operation.new
    if job is None or operation.old is not None or job["spec"].get("manualSelector"):
        return
    metadata, template = job["metadata"], job["spec"]["template"]["metadata"]
    uid = metadata["uid"]
    shared = not metadata.get("labels") or metadata["labels"] == template.get("labels")
    name = metadata.get("name") or operation.key.name
    labels = {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    template["labels"] = {**(template.get("labels") or {}), **labels}
    if shared:
        metadata["labels"] = dict(template["labels"])
    selector = job["spec"]["selector"] = job["spec"].get("selector") or {}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), CONTROLLER_UID: uid}


def validate_job(operation: Operation) -> list[FieldError]:
    """Validate counts, selector and template; what its pods are made from may not change."""
    spec = (operation.new or {}).get("spec") or {}
    found = list(_own_selector_errors(operation, spec))
    found.extend(_job_errors(spec, "spec"))
    if operation.old is not None:
        old = operation.old.get("spec") or {}
        if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
            found.extend(immutable_errors(spec.get("completions"), old.get("completions"), "spec.completions"))
        for name in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"):
            found.extend(immutable_errors(spec.get(name), old.get(name), f"spec.{name}"))
        found.extend(immutable_errors(_fixed_template(spec, old), old.get("template"), "spec.template"))
    return found


def _fixed_template(spec: Object, old: Object) -> Any:
    """Return the template without what may change while a job is suspended: where and how large its pods are."""
    template, before = spec.get("template"), old.get("template")
    if not old.get("suspend") or not isinstance(template, dict) or not isinstance(before, dict):
        return template
    metadata = {**(template.get("metadata") or {}), **_kept(before.get("metadata") or {}, ("annotations", "labels"))}
    pod = {**(template.get("spec") or {}), **_kept(before.get("spec") or {}, _PLACEMENT)}
    return {**template, "metadata": metadata, "spec": pod}


def _kept(before: Object, names: tuple[str, ...]) -> Object:
    return {name: before[name] for name in names if name in before}


_PLACEMENT = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


def _own_selector_errors(operation: Operation, spec: Object) -> Iterator[FieldError]:
    selector = spec.get("selector") or {}
    own = set(selector.get("matchLabels") or {}) == {CONTROLLER_UID} and not selector.get("matchExpressions")
    if operation.old is None and not spec.get("manualSelector") and not own:
        yield invalid("spec.selector", selector, "`selector` not auto-generated")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not is_selected(labels or {}, selector):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _job_errors(spec: Object, path: str) -> Iterator[FieldError]:
    yield from negative_errors(spec, _COUNTS, path)
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    template = spec.get("template") or {}
    yield from metadata_errors(template.get("metadata") or {}, f"{path}.template.metadata")
    pod = template.get("spec") or {}
    yield from pod_spec_errors(pod, f"{path}.template.spec")
    # Unset and `Always` look the same once defaults are filled in.
    if pod.get("restartPolicy") == "Always":
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def validate_cron_job(operation: Operation) -> list[FieldError]:
    cron_job = operation.new or {}
    spec = cron_job.get("spec") or {}
    found = list(_schedule_errors(spec))
    found.extend(negative_errors(spec, ("startingDeadlineSeconds",), "spec"))
    policy = spec.get("concurrencyPolicy") or ""
    if policy not in ("Allow", "Forbid", "Replace"):
        found.append(not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
    found.extend(_job_errors((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec"))
    found.extend(negative_errors(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec"))
    name = (cron_job.get("metadata") or {}).get("name") or ""
    if operation.old is None and len(name) > _LONGEST_CRON_JOB_NAME:
        found.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_CRON_JOB_NAME} characters"))
    return found


def _schedule_errors(spec: Object) -> Iterator[FieldError]:
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if not schedule:
        yield required("spec.schedule")
    else:
        if "TZ" in schedule:
            yield invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        try:
            parse_schedule(schedule)
        except BadSchedule as problem:
            yield invalid("spec.schedule", schedule, str(problem))
    if zone is not None and not _is_zone(zone):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
