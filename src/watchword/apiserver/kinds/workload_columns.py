"""The columns that `kubectl get` shows for pods, nodes, services, deployments and jobs."""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object, is_deleting, labels_of
from watchword.api.time import parse_rfc3339
from watchword.apiserver.kinds.columns import AGE, NAME, Cell, age, at, human_duration, number, since, size, text, wide
from watchword.apiserver.kinds.metadata import printed_selector
from watchword.apiserver.model import Column


class Summary(Struct, frozen=True):
    """What the containers of a pod add up to."""

    ready: int
    total: int
    reason: str
    restarts: int
    last_restart: str


def summarise(pod: Object) -> Summary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {each.get("name") for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    init = status.get("initContainerStatuses") or []
    running_sidecars = [each for each in init if each.get("name") in sidecars]
    ready = sum(1 for each in running_sidecars if each.get("started") and each.get("ready"))
    initial = status.get("reason") or status.get("phase") or ""
    waiting = _init_reason(init, sidecars, len(spec.get("initContainers") or ()))
    if waiting and not _has_condition(status, "Initialized"):
        return _finished(pod, Summary(ready, total, waiting, *_restarts(init)))
    main = status.get("containerStatuses") or []
    ready += sum(1 for each in main if _is_running(each))
    reason = _main_reason(main, waiting or initial, status)
    return _finished(pod, Summary(ready, total, reason, *_restarts([*running_sidecars, *main])))


def _finished(pod: Object, summary: Summary) -> Summary:
    if is_deleting(pod) and at(pod, "status.reason") == "NodeLost":
        return replace(summary, reason="Unknown")
    if is_deleting(pod) and at(pod, "status.phase") not in ("Succeeded", "Failed"):
        return replace(summary, reason="Terminating")
    return summary


def _init_reason(statuses: list[Object], sidecars: set[str | None], total: int) -> str:
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if status.get("name") in sidecars and status.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _main_reason(statuses: list[Object], reason: str, status: Object) -> str:
    failure = ""
    for each in reversed(statuses):
        state = each.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
            failure = reason if terminated.get("exitCode") else failure
    if reason != "Completed":
        return reason
    running = any(_is_running(each) for each in statuses)
    if running and _has_condition(status, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else reason)


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _is_running(status: Object) -> bool:
    return bool(status.get("ready")) and (status.get("state") or {}).get("running") is not None


def _has_condition(status: Object, kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in status.get("conditions") or ())


def _restarts(statuses: list[Object]) -> tuple[int, str]:
    ends = [at(each, "lastState.terminated.finishedAt") or "" for each in statuses]
    return sum(each.get("restartCount") or 0 for each in statuses), max(ends, default="")


def _restarts_cell(pod: Object, now: datetime) -> str:
    summary = summarise(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({age(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def _ready_cell(pod: Object, _: datetime) -> str:
    summary = summarise(pod)
    return f"{summary.ready}/{summary.total}"


def _gates_cell(pod: Object, _: datetime) -> str:
    gates = at(pod, "spec.readinessGates") or []
    met = sum(1 for gate in gates if _has_condition(pod.get("status") or {}, gate.get("conditionType") or ""))
    return f"{met}/{len(gates)}" if gates else "<none>"


def _address_cell(pod: Object, _: datetime) -> str:
    addresses = at(pod, "status.podIPs") or [{"ip": at(pod, "status.podIP")}]
    return addresses[0].get("ip") or "<none>"


POD = (
    NAME,
    Column("Ready", _ready_cell),
    Column("Status", lambda pod, _: summarise(pod).reason),
    Column("Restarts", _restarts_cell),
    AGE,
    wide("IP", _address_cell),
    wide("Node", text("spec.nodeName", "<none>")),
    wide("Nominated Node", text("status.nominatedNodeName", "<none>")),
    wide("Readiness Gates", _gates_cell),
)


_ROLE_PREFIX = "node-role.kubernetes.io/"
_SHOWN_ENDPOINTS = 3


def _cluster_ip(service: Object, _: datetime) -> str:
    addresses = at(service, "spec.clusterIPs") or []
    return addresses[0] if addresses else "<none>"


def _external_ip(service: Object, _: datetime) -> str:
    spec = service.get("spec") or {}
    external = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ExternalName":
            return spec.get("externalName") or ""
        case "LoadBalancer":
            ingress = at(service, "status.loadBalancer.ingress") or []
            balanced = [each.get("ip") or each.get("hostname") or "" for each in ingress]
            return ",".join([*balanced, *external]) or "<pending>"
        case _:
            return ",".join(external) or "<none>"


def _ports(service: Object, _: datetime) -> str:
    return ",".join(_port(port) for port in at(service, "spec.ports") or ()) or "<none>"


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol')}"


def _labels(path: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        labels = at(obj, path) or {}
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"

    return cell


SERVICE = (
    NAME,
    Column("Type", text("spec.type")),
    Column("Cluster-IP", _cluster_ip),
    Column("External-IP", _external_ip),
    Column("Port(s)", _ports),
    AGE,
    wide("Selector", _labels("spec.selector")),
)


def _endpoints(endpoints: Object, _: datetime) -> str:
    subsets = endpoints.get("subsets") or []
    if not subsets:
        return "<none>"
    listed = [
        _host_port(address.get("ip") or "", port.get("port"))
        for subset in subsets
        for port in subset.get("ports") or [{}]
        for address in subset.get("addresses") or ()
    ]
    more = len(listed) - _SHOWN_ENDPOINTS
    return ",".join(listed[:_SHOWN_ENDPOINTS]) + (f" + {more} more..." if more > 0 else "")


def _host_port(host: str, port: int | None) -> str:
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


ENDPOINTS = (NAME, Column("Endpoints", _endpoints), AGE)


def _node_status(node: Object, _: datetime) -> str:
    conditions = at(node, "status.conditions") or ()
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    shown = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if at(node, "spec.unschedulable") else shown


def _roles(node: Object, _: datetime) -> str:
    labels = labels_of(node)
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or "<none>"


def _address(kind: str) -> Cell:
    def cell(node: Object, _: datetime) -> str:
        addresses = at(node, "status.addresses") or ()
        return next((str(each.get("address")) for each in addresses if each.get("type") == kind), "<none>")

    return cell


NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    Column("Version", text("status.nodeInfo.kubeletVersion")),
    wide("Internal-IP", _address("InternalIP")),
    wide("External-IP", _address("ExternalIP")),
    wide("OS-Image", text("status.nodeInfo.osImage", "<unknown>")),
    wide("Kernel-Version", text("status.nodeInfo.kernelVersion", "<unknown>")),
    wide("Container-Runtime", text("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
)


_JOB_CONDITIONS = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _joined(path: str, name: str) -> Cell:
    return lambda obj, _: ",".join(str(each.get(name) or "") for each in at(obj, path) or ())


def _pods(template: str, selector: str, *, none: str = "") -> tuple[Column, ...]:
    return (
        wide("Containers", _joined(f"{template}.spec.containers", "name")),
        wide("Images", _joined(f"{template}.spec.containers", "image")),
        wide("Selector", lambda obj, _: printed_selector(at(obj, selector)) or none),
    )


def _ready(deployment: Object, _: datetime) -> str:
    return f"{at(deployment, 'status.readyReplicas') or 0}/{at(deployment, 'spec.replicas') or 0}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _ready),
    Column("Up-to-date", number("status.updatedReplicas")),
    Column("Available", number("status.availableReplicas")),
    AGE,
    *_pods("spec.template", "spec.selector"),
)
REPLICA_SET = (
    NAME,
    Column("Desired", number("spec.replicas"), type="integer"),
    Column("Current", number("status.replicas"), type="integer"),
    Column("Ready", number("status.readyReplicas"), type="integer"),
    AGE,
    *_pods("spec.template", "spec.selector", none="<none>"),
)


def _job_status(job: Object, _: datetime) -> str:
    conditions = at(job, "status.conditions") or ()
    held = {each.get("type") for each in conditions if each.get("status") == "True"}
    for final in ("Complete", "Failed"):
        if final in held:
            return final
    if is_deleting(job):
        return "Terminating"
    return next((condition for condition in _JOB_CONDITIONS if condition in held), "Running")


def _completions(job: Object, _: datetime) -> str:
    succeeded, wanted = at(job, "status.succeeded") or 0, at(job, "spec.completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = at(job, "spec.parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    started = parse_rfc3339(at(job, "status.startTime") or "")
    ended = parse_rfc3339(at(job, "status.completionTime") or "")
    return human_duration((ended or now) - started) if started else ""


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _completions),
    Column("Duration", _job_duration),
    AGE,
    *_pods("spec.template", "spec.selector", none="<none>"),
)


def _suspended(cron_job: Object, _: datetime) -> str:
    suspended = at(cron_job, "spec.suspend")
    return "<unset>" if suspended is None else str(bool(suspended))


CRON_JOB = (
    NAME,
    Column("Schedule", text("spec.schedule")),
    Column("Timezone", text("spec.timeZone", "<none>")),
    Column("Suspend", _suspended, type="boolean"),
    Column("Active", size("status.active"), type="integer"),
    Column("Last Schedule", since("status.lastScheduleTime", "<none>")),
    AGE,
    *_pods("spec.jobTemplate.spec.template", "spec.jobTemplate.spec.selector", none="<none>"),
)
