"""A pod's status, as a kubelet reports it, from the states of its containers."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from watchword.api.conditions import Condition, merge_condition
from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.apiserver.node.container_run import ContainerState, ContainerTermination

NODE_RESTARTED = "NodeRestarted"
KILLED = 137


def choose_phase(states: Sequence[ContainerState]) -> str:
    ends = [state.ended for state in states]
    if all(end is not None for end in ends):
        return "Failed" if any(end is not None and end.exit_code for end in ends) else "Succeeded"
    started = any(state.running_since or state.ended or state.last or state.restarts for state in states)
    return "Running" if started else "Pending"


def pod_status(pod: Object, states: Mapping[str, ContainerState], *, now: datetime) -> Object:
    """Return the complete status; unchanged conditions keep their times."""
    old = pod.get("status") or {}
    phase = choose_phase(list(states.values()))
    ready = phase == "Running" and all(state.ready for state in states.values())
    rows: list[Object] = list(old.get("conditions") or [])
    for condition in conditions(phase, ready=ready):
        rows = merge_condition(rows, condition, now=now) or rows
    images = {container["name"]: str(container.get("image")) for container in pod["spec"]["containers"]}
    return {
        **old,
        "phase": phase,
        "conditions": rows,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "startTime": old.get("startTime") or rfc3339(now),
        "containerStatuses": [
            container_status(name, images[name], state, pod["metadata"]["uid"]) for name, state in states.items()
        ],
    }


def conditions(phase: str, *, ready: bool) -> list[Condition]:
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    done = [Condition.true("PodScheduled", ""), Condition.true("Initialized", "")]
    own = ("ContainersReady", "Ready")
    return done + [Condition.true(type_, "") if ready else Condition.false(type_, reason) for type_ in own]


def container_status(name: str, image: str, state: ContainerState, uid: str) -> Object:
    number = f"process://{uid}/{name}/{state.restarts}"
    row: Object = {
        "name": name,
        "image": image,
        "imageID": f"process://{image}",
        "ready": state.ready,
        "started": state.running_since is not None,
        "restartCount": state.restarts,
        "state": _state(state),
        "lastState": {"terminated": _terminated(state.last)} if state.last else {},
    }
    return {**row, "containerID": number} if state.running_since or state.ended else row


def _state(state: ContainerState) -> Object:
    if state.ended is not None:
        return {"terminated": _terminated(state.ended)}
    if state.running_since is not None:
        return {"running": {"startedAt": rfc3339(state.running_since)}}
    waiting: Object = {"reason": state.waiting}
    return {"waiting": {**waiting, "message": state.message} if state.message else waiting}


def _terminated(ended: ContainerTermination) -> Object:
    return {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": rfc3339(ended.started_at),
        "finishedAt": rfc3339(ended.finished_at),
    }


def restore_container_state(pod: Object, name: str, *, now: datetime) -> ContainerState:
    rows = (pod.get("status") or {}).get("containerStatuses") or ()
    row = next((row for row in rows if row.get("name") == name), None)
    if row is None:
        return ContainerState()
    restarts = int(row.get("restartCount") or 0)
    running = (row.get("state") or {}).get("running")
    if not running:
        return ContainerState(restarts=restarts)
    started = parse_rfc3339(running.get("startedAt") or "") or now
    ended = ContainerTermination(KILLED, started, now, NODE_RESTARTED)
    if pod["spec"].get("restartPolicy") == "Never":
        return ContainerState(ended=ended, restarts=restarts)
    return ContainerState(restarts=restarts + 1, last=ended)
