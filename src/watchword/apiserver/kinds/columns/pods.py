"""Columns of pods: one status for all containers together."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from watchword.api.meta import Object, is_deleting
from watchword.apiserver.kinds.columns.cells import AGE, NAME, age, at, text, wide
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
    status = pod.get("status") or {}
    reason = summary.reason
    if is_deleting(pod) and status.get("reason") == "NodeLost":
        reason = "Unknown"
    elif is_deleting(pod) and status.get("phase") not in ("Succeeded", "Failed"):
        reason = "Terminating"
    return Summary(summary.ready, summary.total, reason, summary.restarts, summary.last_restart)


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
