"""Pods and nodes: stored, reported on, and bound to each other."""

from __future__ import annotations

from watchword.api.json import copy_json
from watchword.api.meta import Object
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.pod_defaults import default_new_pod_placement, qos_class
from watchword.apiserver.kinds.pod_validation import pod_spec_errors
from watchword.apiserver.model import FieldError, Operation

_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_UPDATE_REFUSAL = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def prepare_pod(operation: Operation) -> None:
    """Start a new pod as Pending; later, spec and status change under their own endpoints."""
    pod, old = operation.new, operation.old
    if pod is None:
        return
    if old is None:
        default_new_pod_placement(pod["spec"])
        pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    elif operation.subresource == "":
        pod["status"] = copy_json(old.get("status") or {})
    elif operation.subresource == "status":
        pod["spec"] = copy_json(old.get("spec") or {})
        pod.setdefault("status", {}).setdefault("qosClass", qos_class(pod["spec"]))


def validate_pod(operation: Operation) -> list[FieldError]:
    """Validate the spec; of a stored pod little more than its images may change."""
    spec = (operation.new or {}).get("spec") or {}
    found = list(pod_spec_errors(spec, "spec"))
    if operation.old is None or operation.subresource not in ("", "ephemeralcontainers"):
        return found
    if _without_changeable(spec) != _without_changeable(operation.old.get("spec") or {}):
        found.append(broken.forbidden("spec", _UPDATE_REFUSAL))
    return found


def _without_changeable(spec: Object) -> Object:
    kept = {name: value for name, value in spec.items() if name not in (*_CHANGEABLE, "ephemeralContainers")}
    for group in ("containers", "initContainers"):
        kept[group] = [{**container, "image": ""} for container in spec.get(group) or ()]
    return kept


def default_node(node: Object) -> None:
    """Make everything that a node has allocatable, unless it says otherwise."""
    status = node.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def host_network(pod: Object) -> str:
    """Return what the field selector `spec.hostNetwork` compares."""
    return "true" if (pod.get("spec") or {}).get("hostNetwork") else "false"


def unschedulable(node: Object) -> str:
    """Return what the field selector `spec.unschedulable` compares."""
    return "true" if (node.get("spec") or {}).get("unschedulable") else "false"
