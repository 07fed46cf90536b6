"""The size of a workload as a Scale: a view on two numbers and a selector."""

from __future__ import annotations

from typing import Any

from watchword.api.meta import Object, Resource
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.columns.cells import at
from watchword.apiserver.kinds.selectors import printed_selector
from watchword.apiserver.model import FieldError

SCALES = Resource("autoscaling", "v1", "scales", "Scale")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")

Paths = tuple[str, str, str]


def scale_of(obj: Object, paths: Paths) -> Object:
    """Return the Scale of an object; what is absent counts as zero."""
    wanted, observed, selector = paths
    metadata = obj["metadata"]
    status: Object = {"replicas": at(obj, observed) or 0}
    shown = _shown_selector(at(obj, selector) if selector else None)
    if shown:
        status["selector"] = shown
    replicas = at(obj, wanted) or 0
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {name: metadata[name] for name in _IDENTITY if metadata.get(name)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def resize(obj: Object, scale: Object, paths: Paths) -> None:
    """Set the object's replicas to those of the Scale, in place."""
    *parents, name = paths[0].split(".")
    target = obj
    for parent in parents:
        target = target.setdefault(parent, {})
    target[name] = (scale.get("spec") or {}).get("replicas") or 0


def scale_errors(scale: Object) -> list[FieldError]:
    """Validate a Scale: sizes are not negative."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        return [broken.invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
    return []


def _shown_selector(selector: Any) -> str:
    return selector if isinstance(selector, str) else printed_selector(selector)
