"""The hub controller that follows from an add-on's definition, as data."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random, SystemRandom

from msgspec import Struct

from watchword.addons.catalog import ADDON_CATALOG, AddonCatalog
from watchword.addons.definition import AddonDefinition, DefinitionLookup
from watchword.addons.hub import certificate_approval, deployment, grants
from watchword.addons.hub.certificate_approval import (
    AddonApprovalReconciler,
    AddonSigningReconciler,
    is_awaiting_signature,
)
from watchword.addons.hub.deployment import AddonDeploymentReconciler
from watchword.addons.hub.grants import GrantWriter
from watchword.addons.hub.registration import RegistrationReconciler, addons_affected_by_cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    ROLES,
)
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.first_requests import FirstRequests
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.reconcile import ControllerSpec, Trigger
from watchword.runtime.status import StatusWriter


class AddonParts(Struct, frozen=True):
    """What an add-on's hub controller is made of."""

    cache: Cache
    client: Client
    events: EventRecorder
    clock: Clock
    definitions: DefinitionLookup
    triggers: Sequence[Trigger] = ()  # whatever else changes a definition
    approves: bool = False  # requests for the hub's own API; our hub approves these for all add-ons
    catalog: AddonCatalog = ADDON_CATALOG

    @property
    def ensurer(self) -> Ensurer:
        return Ensurer(self.cache, self.client)

    @property
    def status(self) -> StatusWriter:
        return StatusWriter(self.client, self.clock, self.cache)


USER_MANAGED_ROLES = {
    CLUSTER_ROLES: WatchScope(labels=f"!{Label.CLUSTER_NAME}"),
    ROLES: WatchScope(labels=f"!{Label.ADDON_CLUSTER},!{Label.TOKEN_INFRASTRUCTURE}"),
}
"""Roles that a grant may name: those of administrators, without the generated ones of clusters and add-ons."""


def register_informers(cache: Cache, addon: str = "", *, names_roles: bool = True) -> None:
    """Register the informers: of one add-on, or of all."""
    marked = f"{Label.ADDON_NAME}={addon}" if addon else Label.ADDON_NAME
    mine = WatchScope(fields=f"metadata.name={addon}") if addon else WatchScope()
    cache.informer(MANAGED_CLUSTER_ADDONS, mine)
    cache.informer(MANAGED_CLUSTERS)
    for resource, scope in USER_MANAGED_ROLES.items() if names_roles else ():
        cache.informer(resource, scope)
    for resource in (ROLES, ROLE_BINDINGS):
        cache.informer(resource, WatchScope(labels=f"{marked},{Label.ADDON_CLUSTER}"))
        cache.index(resource, grants.INDEX, lambda obj: [str(key) for key in grants.addon_from_labels(obj)])
    for needed in ADDON_CATALOG.subject_objects:
        if not cache.informers(needed.resource):
            cache.informer(needed.resource, WatchScope(labels=needed.selector(addon)))
    cache.index(ROLE_BINDINGS, grants.BY_ROLE, grants.bound_role)
    if not cache.informers(MANIFEST_WORKS):
        cache.informer(MANIFEST_WORKS, WatchScope(labels=marked))
    if not cache.informers(CERTIFICATE_SIGNING_REQUESTS):
        cache.informer(CERTIFICATE_SIGNING_REQUESTS, WatchScope(labels=f"{Label.CLUSTER_NAME},{marked}"))
    cache.index(MANIFEST_WORKS, deployment.INDEX, lambda obj: [str(key) for key in deployment.addon_from_labels(obj)])
    cache.index(CERTIFICATE_SIGNING_REQUESTS, certificate_approval.INDEX, certificate_approval.index_open_requests)


def controllers(parts: AddonParts) -> Iterable[ControllerSpec]:
    """Return every controller of an add-on: its root kind, what else triggers it, its reconciler."""
    reader, client, ensurer, status = parts.cache, parts.client, parts.ensurer, parts.status
    registration = RegistrationReconciler(
        reader,
        GrantWriter(reader, client, ensurer, parts.catalog),
        status,
        parts.events,
        parts.definitions,
        parts.catalog,
    )
    installing = AddonDeploymentReconciler(reader, client, ensurer, status, parts.definitions)
    granted = tuple(Trigger(resource, grants.addon_from_labels) for resource in (ROLES, ROLE_BINDINGS))
    by_cluster = Trigger(MANAGED_CLUSTERS, lambda obj: addons_affected_by_cluster(reader, obj))
    followed = [
        resource
        for resource, scope in USER_MANAGED_ROLES.items()
        if any(informer.scope == scope for informer in parts.cache.informers(resource))
    ]
    by_role = (Trigger(resource, lambda obj: grants.addons_affected_by_role(reader, obj)) for resource in followed)
    by_subject = (Trigger(needed.resource, needed.addons_of) for needed in parts.catalog.subject_objects)
    triggers = (*granted, *by_subject, by_cluster, *by_role, *parts.triggers)
    yield ControllerSpec("addon-registration", MANAGED_CLUSTER_ADDONS, registration, triggers)
    yield ControllerSpec(
        "addon-deployment",
        MANAGED_CLUSTER_ADDONS,
        installing,
        (Trigger(MANIFEST_WORKS, deployment.addon_from_labels), *parts.triggers),
    )
    yield from _certificates(parts)


def _certificates(parts: AddonParts) -> Iterable[ControllerSpec]:
    reader, client, events, clock = parts.cache, parts.client, parts.events, parts.clock
    approving = AddonApprovalReconciler(
        reader, client, events, clock, parts.definitions, parts.catalog, for_hub=parts.approves
    )
    signing = AddonSigningReconciler(reader, client, events, clock, parts.definitions, parts.catalog)
    waiting = (Trigger(MANAGED_CLUSTER_ADDONS, lambda obj: certificate_approval.pending_requests(reader, obj)),)
    yield ControllerSpec(
        "addon-approval",
        CERTIFICATE_SIGNING_REQUESTS,
        approving,
        waiting,
        concerns=certificate_approval.is_pending_addon_request,
        acts_on_deletion=False,
    )
    yield ControllerSpec(
        "addon-signing",
        CERTIFICATE_SIGNING_REQUESTS,
        signing,
        waiting,
        concerns=is_awaiting_signature,
        acts_on_deletion=False,
    )


async def run_addon(
    client: Client,
    definition: AddonDefinition,
    *,
    options: ManagerOptions | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Maintain registrations, rights, deployment and health of an add-on until `stop` is set.

    Give `options` with a lease to run several replicas. Raises what the manager raises.
    """
    clock, random = clock or SystemClock(), random or SystemRandom()
    name = f"watchword.dev/addon-{definition.name}"
    manager = Manager(options or ManagerOptions(name, definition.name), clock=clock, random=random)
    hub = manager.connect(client)
    register_informers(hub.cache, definition.name, names_roles=any(grant.role for grant in definition.grants))
    parts = AddonParts(hub.cache, hub.client, hub.events, clock, single_addon_lookup(definition))
    manager.add(*controllers(parts))
    await FirstRequests(random, manager.metrics).run(lambda: _list_addon(client, definition.name))
    await manager.run(stop)


async def _list_addon(client: Client, name: str) -> None:
    """Create the ClusterManagementAddOn by which a hub lists an add-on; an account that may not leaves it to others."""
    with suppress(AlreadyExists, Forbidden):
        entry = CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name), spec={})
        await client.create(CLUSTER_MANAGEMENT_ADDONS, entry)


def no_definitions(_: Object) -> AddonDefinition | None:
    """Know no add-on: for controllers that describe none."""
    return None


def single_addon_lookup(definition: AddonDefinition) -> DefinitionLookup:

    def find(addon: Object) -> AddonDefinition | None:
        return definition if addon["metadata"]["name"] == definition.name else None

    return find
