"""Deployments and replica sets: what the server fills in, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watchword.api.meta import Object, annotations_of
from watchword.apiserver.field_errors import forbidden, invalid, not_supported, required
from watchword.apiserver.kinds.metadata import immutable_errors, is_selected, metadata_errors, selector_errors
from watchword.apiserver.kinds.names import int_or_percent_errors, negative_errors
from watchword.apiserver.kinds.pod_validation import pod_spec_errors
from watchword.apiserver.kinds.pods import default_pod_spec
from watchword.apiserver.model import FieldError, Operation


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
        detail = "must be greater than minReadySeconds"
        found.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
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
        detail = "`selector` does not match template `labels`"
        yield invalid(f"{path}.template.metadata.labels", labels, detail)
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
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(f"{path}.rollingUpdate", detail)
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
