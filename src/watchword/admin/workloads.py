"""Reads the pods of our processes: their logs, and why a Deployment does not run."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum

import orjson
from msgspec import Struct

from watchword import __version__
from watchword.admin.apply import list_if_served
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, is_deleting
from watchword.api.names import IMAGE, IMAGE_VARIABLE
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    KLUSTERLETS,
    LEASES,
    NAMESPACES,
    PODS,
)
from watchword.discovery.discover import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.health.processes import find_deployment_problem, format_selector
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.bundles import BundleOptions, operator_bundle
from watchword.operator.cluster_manager import hub_manifests
from watchword.operator.klusterlet import agent_deployment, namespace_of
from watchword.operator.process import OPERATOR_LEASE
from watchword.operator.rendering import OPERATOR, image_of_operator


async def await_deployments(
    client: Client, deployments: Sequence[ObjectKey], patience: timedelta, progress: Progress = ignore_progress
) -> None:
    """Return once all of them run; `NotReady`, naming the pod that does not and why, when they do not in time."""

    async def look() -> None:
        for key in deployments:
            problem = await find_deployment_problem(client, key)
            if problem is not None:
                raise PollAgain(problem.reason, NotReady(f"{problem.reason}: see `{problem.command}`"))

    await poll_until(look, PollOptions(patience, pause=timedelta(seconds=1)), progress)


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
UNPUBLISHED = (
    f"which image should run? None is published yet. Build it with `make image`, push it with `skopeo copy "
    f"oci:dist/image docker://REGISTRY/watchword:{__version__}`, and name it with --image or {IMAGE_VARIABLE}"
)


async def choose_image(client: Client) -> str:
    """Return the image for what the command line names none: that of the operator here, or of this release."""
    operator = await client.find(DEPLOYMENTS, OPERATOR)
    return await release_image(client) if operator is None else image_of_operator(operator)


async def release_image(client: Client) -> str:
    """Return the image of this release for an embedded plane; elsewhere `OperationRefused` says how to get one."""
    version = orjson.loads(await client.read("/version")).get("gitVersion") or ""
    if "+watchword." not in version:  # nodes of the embedded control plane run this program itself
        raise OperationRefused(UNPUBLISHED)
    return IMAGE


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
