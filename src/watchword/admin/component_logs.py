"""Finds the pods of operator, hub and agent on a cluster, and reads what they log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum

from msgspec import Struct

from watchword.admin.deployment_trouble import format_selector
from watchword.admin.errors import OperationRefused
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.resources import CLUSTER_MANAGERS, DEPLOYMENTS, KLUSTERLETS, PODS
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.bundles import OPERATOR
from watchword.operator.cluster_manager_manifests import hub_manifests
from watchword.operator.klusterlet_manifests import agent_deployment


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
        """The request as the API server takes it."""
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
