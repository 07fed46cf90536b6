"""The operator on a cluster: deployed for what is needed there, and removed with the last of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from watchword.admin.wait import ObjectWaiter
from watchword.api.images import IMAGE
from watchword.api.meta import Manifest, Object, ObjectKey, Resource
from watchword.api.resources import CLUSTER_MANAGERS, CUSTOM_RESOURCE_DEFINITIONS, KLUSTERLETS, LEASES, NAMESPACES
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.bundles import OPERATOR, BundleOptions, operator_bundle
from watchword.operator.klusterlet_manifests import namespace_of
from watchword.operator.process import LEASE as OPERATOR_LEASE

FIELD_MANAGER = "watchword-deploy"


async def operator_objects(
    client: Client, image: str, *, hub: bool = False, agent_namespace: str = ""
) -> list[Manifest]:
    """Return the operator for what is wanted now and for what it deploys here already.

    Its rights are one role: joining a second hub, or making a managed cluster a hub, must not remove the first.
    """
    present = await _present(client, KLUSTERLETS)
    places = sorted({namespace_of(obj) for obj in present} | ({agent_namespace} - {""}))
    is_hub = hub or bool(await _present(client, CLUSTER_MANAGERS))
    return operator_bundle(choose_bundle_options(image, places, hub=is_hub))


def choose_bundle_options(image: str, places: list[str], *, hub: bool) -> BundleOptions:
    """Return how the operator is installed for agents in these namespaces, and for a hub."""
    if not places:
        return BundleOptions(image, for_hub=hub, for_agent=False)
    return BundleOptions(image, places[0], for_hub=hub, more_agent_namespaces=tuple(places[1:]))


async def unneeded_operator_objects(client: Client, agent_namespace: str, *, going: str = "") -> list[Manifest]:
    """Return the operator's objects, the last first, when nothing is left for it to do but a Klusterlet that is going.

    Its kinds stay, because they may contain claims and records, and its namespace, because a hub runs there too.
    """
    staying = [found for found in await _present(client, KLUSTERLETS) if found["metadata"]["name"] != going]
    if staying or await _present(client, CLUSTER_MANAGERS):
        return []
    rows = operator_bundle(choose_bundle_options(IMAGE, [agent_namespace], hub=False))
    removed = [row for row in reversed(rows) if row[0] not in (CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES)]
    # Once its rights are gone the operator cannot give its lease back, and the next one would wait for it to expire.
    lease = ObjectKey(OPERATOR.namespace, OPERATOR_LEASE)
    return [*removed, (LEASES, LEASES.manifest(lease))]


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


async def _present(client: Client, resource: Resource) -> list[Object]:
    try:
        return (await client.list(resource)).items
    except NotFound:  # the kind itself is not there
        return []
