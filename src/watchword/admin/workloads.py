"""Reads the pods of our processes: their logs, and why a Deployment does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

from watchword.admin.apply import list_if_served
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.wait import ObjectWaiter
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, is_deleting
from watchword.api.names import IMAGE
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    LEASES,
    NAMESPACES,
    PODS,
)
from watchword.discovery.polling import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.bundles import OPERATOR, BundleOptions, operator_bundle
from watchword.operator.cluster_manager_manifests import hub_manifests
from watchword.operator.conditions import describe_rollout
from watchword.operator.klusterlet_manifests import agent_deployment, namespace_of
from watchword.operator.process import LEASE as OPERATOR_LEASE


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
    labels = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def decide_deployment_trouble(deployment: Object, pods: Sequence[Object]) -> DeploymentTrouble | None:
    """Name the pod that is in the way; None when the roll-out is done and at least one pod works."""
    key = ObjectKey.of(deployment)
    living = sorted((pod for pod in pods if not is_deleting(pod)), key=lambda pod: str(pod["metadata"]["name"]))
    troubles = [(pod, why) for pod in living if (why := describe_pod_trouble(pod))]
    rollout = describe_rollout(deployment)
    if not rollout and (not troubles or len(troubles) < len(living)):
        return None
    if troubles:
        pod, why = troubles[0]
        name = pod["metadata"]["name"]
        shown = f"logs {name} --previous" if _has_restarted(pod) else f"describe pod {name}"
        return DeploymentTrouble(f"pod {key.namespace}/{name} {why}", f"kubectl -n {key.namespace} {shown}")
    said = find_condition(deployment, "ReplicaFailure") or find_condition(deployment, "Progressing")
    why = f": {said.message}" if said is not None and said.message else ""
    reason = f"Deployment {key} has no pod" if not living else f"Deployment {key}: {rollout}"
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


class Component(StrEnum):
    """What is deployed by an operator, and the operator itself."""

    OPERATOR = "operator"
    HUB = "hub"
    AGENT = "agent"


class LogRequest(Struct, frozen=True):
    """Which part of a log is wanted."""

    tail: int | None = None
    follow: bool = False
    previous: bool = False

    @property
    def query(self) -> dict[str, str]:
        said = {
            "tailLines": "" if self.tail is None else str(self.tail),
            "follow": "true" if self.follow else "",
            "previous": "true" if self.previous else "",
        }
        return {name: value for name, value in said.items() if value}


async def find_pods(client: Client, component: Component) -> list[ObjectKey]:
    """Return the pods of a component, the newest last; `OperationRefused` when it does not run on this cluster."""
    pods: list[Object] = []
    for key in await _deployments(client, component):
        found = await client.find(DEPLOYMENTS, key)
        if found is not None:
            pods += (await client.list(PODS, namespace=key.namespace, labels=format_selector(found))).items
    living = [pod for pod in pods if not is_deleting(pod)]
    if not living:
        raise OperationRefused(
            f"no pod of the {component} runs on this cluster: name another with --context, or see `watchword doctor`"
        )
    return [ObjectKey.of(pod) for pod in sorted(living, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))]


async def _deployments(client: Client, component: Component) -> Sequence[ObjectKey]:
    try:
        match component:
            case Component.OPERATOR:
                return [OPERATOR]
            case Component.HUB:
                rows = [row for found in (await client.list(CLUSTER_MANAGERS)).items for row in hub_manifests(found)]
            case Component.AGENT:
                rows = [agent_deployment(found) for found in (await client.list(KLUSTERLETS)).items]
    except NotFound:  # the kind itself is not there
        return []
    return [ObjectKey.of(obj) for resource, obj in rows if resource is DEPLOYMENTS]


async def read_log(client: Client, pod: ObjectKey, wanted: LogRequest) -> AsyncIterator[bytes]:
    """Yield a pod's log, piece by piece; with `follow`, until the pod ends."""
    async with client.open(f"{PODS.path(pod)}/log", query=wanted.query) as response:
        if response.stream is None:
            yield response.body
            return
        async for piece in response.stream:
            yield piece


FIELD_MANAGER = "watchword-deploy"


async def operator_objects(
    client: Client, image: str, *, hub: bool = False, agent_namespace: str = ""
) -> list[Manifest]:
    """Return the operator for what is wanted now and for what it deploys here already.

    Its rights are one role: joining a second hub, or making a managed cluster a hub, must not remove the first.
    """
    present = await list_if_served(client, KLUSTERLETS)
    places = sorted({namespace_of(obj) for obj in present} | ({agent_namespace} - {""}))
    is_hub = hub or bool(await list_if_served(client, CLUSTER_MANAGERS))
    return operator_bundle(choose_bundle_options(image, places, hub=is_hub))


def choose_bundle_options(image: str, places: list[str], *, hub: bool) -> BundleOptions:
    if not places:
        return BundleOptions(image, for_hub=hub, for_agent=False)
    return BundleOptions(image, places[0], for_hub=hub, more_agent_namespaces=tuple(places[1:]))


async def unneeded_operator_objects(
    client: Client, agent_namespace: str, *, going: str = "", hub_goes: bool = False
) -> list[Manifest]:
    """Return what the operator does not need any more, the last first, once a Klusterlet or the hub is gone.

    Its kinds stay, because they may contain claims and records, and its namespace, because a hub runs there too.
    """
    staying = [found for found in await list_if_served(client, KLUSTERLETS) if found["metadata"]["name"] != going]
    places = sorted({namespace_of(found) for found in staying})
    stays = not hub_goes and bool(await list_if_served(client, CLUSTER_MANAGERS))
    before = operator_bundle(choose_bundle_options(IMAGE, [*places, agent_namespace], hub=stays or hub_goes))
    is_needed = bool(places) or stays
    after = operator_bundle(choose_bundle_options(IMAGE, places, hub=stays)) if is_needed else []
    kept = {(resource, ObjectKey.of(obj)) for resource, obj in after}
    removed = [
        (resource, obj)
        for resource, obj in reversed(before)
        if resource not in (CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES) and (resource, ObjectKey.of(obj)) not in kept
    ]
    # Once its rights are gone the operator cannot give its lease back, and the next one would wait for it to expire.
    lease = (LEASES, LEASES.manifest(ObjectKey(OPERATOR.namespace, OPERATOR_LEASE)))
    return removed if is_needed else [*removed, lease]


async def delete_deployed(client: Client, wanted: Iterable[tuple[Resource, str]], patience: timedelta) -> list[str]:
    """Delete these ClusterManagers and Klusterlets; return those that were there once the operator removed them.

    `NotReady` when the operator does not remove them in time.
    """
    keys = [(resource, ObjectKey.cluster(name)) for resource, name in wanted]
    found = [row for row in keys if await client.find(*row) is not None]
    for resource, key in found:
        with suppress(NotFound):  # another client deleted it
            await client.delete(resource, key)
    waiter = ObjectWaiter(client, patience)
    advice = f"does deployment/{OPERATOR.name} in {OPERATOR.namespace} run? `watchword logs operator` has its messages"
    for resource, key in found:
        await waiter.until_gone(resource, key, advice=advice)
    return [f"{resource.kind} {key.name}" for resource, key in found]
