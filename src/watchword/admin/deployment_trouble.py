"""Why a Deployment does not run: which of its pods is in the way, and what that pod says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.admin.errors import NotReady
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.resources import DEPLOYMENTS, PODS
from watchword.discovery.polling import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.kube.client import Client


class DeploymentTrouble(Struct, frozen=True):
    """Why it does not run, and the command that shows more."""

    reason: str
    command: str


async def find_deployment_trouble(client: Client, key: ObjectKey) -> DeploymentTrouble | None:
    """Return what keeps a Deployment from running; None when it runs."""
    found = await client.find(DEPLOYMENTS, key)
    if found is None:
        return DeploymentTrouble(f"there is no Deployment {key}", f"kubectl -n {key.namespace} get deployments")
    pods = (await client.list(PODS, namespace=key.namespace, labels=format_selector(found))).items
    return decide_deployment_trouble(found, pods)


async def await_deployments(
    client: Client, deployments: Sequence[ObjectKey], patience: timedelta, progress: Progress = ignore_progress
) -> None:
    """Return once all of them run; `NotReady`, naming the pod that does not and why, when they do not in time."""

    async def look() -> None:
        for key in deployments:
            trouble = await find_deployment_trouble(client, key)
            if trouble is not None:
                raise PollAgain(trouble.reason, NotReady(f"{trouble.reason}: see `{trouble.command}`"))

    await poll_until(look, PollOptions(patience, pause=timedelta(seconds=1)), progress)


def format_selector(deployment: Object) -> str:
    """Return the labels by which a Deployment finds its pods."""
    labels = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def decide_deployment_trouble(deployment: Object, pods: Sequence[Object]) -> DeploymentTrouble | None:
    """Name the pod that is in the way; None when the Deployment is available and no pod of it fails."""
    key = ObjectKey.of(deployment)
    living = sorted((pod for pod in pods if not is_deleting(pod)), key=lambda pod: str(pod["metadata"]["name"]))
    troubles = [(pod, why) for pod in living if (why := describe_pod_trouble(pod))]
    if is_true(deployment, "Available") and (not troubles or len(troubles) < len(living)):
        return None
    if troubles:
        pod, why = troubles[0]
        name = pod["metadata"]["name"]
        shown = f"logs {name} --previous" if _has_restarted(pod) else f"describe pod {name}"
        return DeploymentTrouble(f"pod {key.namespace}/{name} {why}", f"kubectl -n {key.namespace} {shown}")
    if is_true(deployment, "Available"):
        return None
    said = find_condition(deployment, "ReplicaFailure") or find_condition(deployment, "Progressing")
    why = f": {said.message}" if said is not None and said.message else ""
    reason = f"Deployment {key} has no pod" if not living else f"Deployment {key} is not available yet"
    return DeploymentTrouble(f"{reason}{why}", f"kubectl -n {key.namespace} describe deployment {key.name}")


def describe_pod_trouble(pod: Object) -> str:
    """Say in a few words why a pod does not work; empty when it does."""
    status = pod.get("status") or {}
    if is_true(pod, "Ready"):
        return ""
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"is pending: {scheduled.message or scheduled.reason}"
    rows = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for row in rows:
        why = _describe_container_trouble(row)
        if why:
            return why
    phase = status.get("phase") or "Pending"
    return "runs and is not ready yet" if phase == "Running" else f"is {str(phase).lower()}"


def _describe_container_trouble(row: Object) -> str:
    waiting = (row.get("state") or {}).get("waiting") or {}
    ended = (row.get("state") or {}).get("terminated") or (row.get("lastState") or {}).get("terminated") or {}
    if waiting.get("reason") not in (None, "", "ContainerCreating", "PodInitializing"):
        said = waiting.get("message") or _describe_end(ended)
        return f"waits: {waiting['reason']}{f' ({said})' if said else ''}"
    return _describe_end(ended) if ended.get("exitCode") else ""


def _describe_end(ended: Object) -> str:
    if not ended:
        return ""
    said = f": {ended['message'].strip()}" if ended.get("message") else ""
    return f"its container ended with exit code {ended.get('exitCode')}{said}"


def _has_restarted(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("containerStatuses") or []
    return any(int(row.get("restartCount") or 0) > 0 for row in rows)
