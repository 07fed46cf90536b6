"""Pods and nodes: stored, reported on, and bound to each other."""

from collections.abc import Iterator
from typing import Any

from watchword.api.json import copy_json
from watchword.api.meta import Object
from watchword.api.quantity import parse_quantity
from watchword.apiserver.field_errors import forbidden
from watchword.apiserver.kinds.pod_validation import pod_spec_errors
from watchword.apiserver.model import FieldError, Operation

FILE_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NODE_PROBLEMS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def default_pod_spec(spec: Object) -> None:
    _fill(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _default_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_pod(pod: Object) -> None:
    """Fill a pod: what a template leaves open is decided here."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def default_new_pod_placement(spec: Object) -> None:
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.get("tolerations") or []
    for problem in _NODE_PROBLEMS:
        if not any(_covers(toleration, problem) for toleration in tolerations):
            tolerations.append({"key": problem, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def containers_of(spec: Object) -> Iterator[Object]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or ()


def qos_class(spec: Object) -> str:
    asked = False
    guaranteed = True
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        resources = container.get("resources") or {}
        limits, requests = _compute(resources.get("limits")), _compute(resources.get("requests"))
        asked = asked or bool(limits or requests)
        guaranteed = guaranteed and limits.keys() == {"cpu", "memory"} and limits == requests
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(resources: Object | None) -> dict[str, Any]:
    parsed = {name: parse_quantity(str(value)) for name, value in (resources or {}).items()}
    return {name: value for name, value in parsed.items() if name in ("cpu", "memory") and value}


def _default_container(container: Object, *, host_network: bool) -> None:
    _fill(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=pull_policy(container.get("image") or ""),
    )
    for port in container.get("ports") or ():
        _fill(port, protocol="TCP")
        if host_network and not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]
    for variable in container.get("env") or ():
        _default_field_ref(variable.get("valueFrom") or {})
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_http(handler)


def pull_policy(image: str) -> str:
    """Return the default image pull policy: always, unless the tag is fixed."""
    name, _, digest = image.partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "IfNotPresent" if digest or tag not in ("", "latest") else "Always"


def _default_probe(probe: Object) -> None:
    _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _default_http(probe)
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http(handler: Object) -> None:
    if handler.get("httpGet") is not None:
        _fill(handler["httpGet"], path="/", scheme="HTTP")


def _default_field_ref(source: Object) -> None:
    if source.get("fieldRef") is not None:
        _fill(source["fieldRef"], apiVersion="v1")


def _default_volume(volume: Object) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(kind) is not None:
            volume[kind].setdefault("defaultMode", FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if volume.get("image") is not None:
        _fill(volume["image"], pullPolicy=pull_policy(volume["image"].get("reference") or ""))
    if volume.get("iscsi") is not None:
        _fill(volume["iscsi"], iscsiInterface="default")
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}
    if claim.get("spec"):
        claim["spec"].setdefault("volumeMode", "Filesystem")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_field_ref(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        _default_projection(source)


def _default_projection(source: Object) -> None:
    if source.get("serviceAccountToken") is not None:
        source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        _default_field_ref(item)


def _fill(target: Object, **defaults: Any) -> None:
    for name, value in defaults.items():
        if target.get(name) in (None, "", 0):
            target[name] = value


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
        found.append(forbidden("spec", _UPDATE_REFUSAL))
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
