"""The hub controller that follows from an add-on's definition, as data."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random, SystemRandom

from msgspec import Struct

from watchword.addons.catalog import ADDON_CATALOG, AddonCatalog
from watchword.addons.definition import AddonDefinition, DefinitionLookup
from watchword.addons.driver import AddonState, AddonStep, StepResult
from watchword.addons.hub import certificate_approval, deployment, grants
from watchword.addons.hub.certificate_approval import AddonRequestReconciler
from watchword.addons.hub.deployment import DeploymentStep
from watchword.addons.hub.grants import GrantWriter
from watchword.addons.hub.installation import AddonInstaller
from watchword.addons.hub.registration import RegistrationStep, addons_affected_by_cluster
from watchword.api import resources
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import Label
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden, KubeError
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.errors import ControllerRuntimeError
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager, ManagerOptions, run_first_requests
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, RetryAfter, Trigger, TriggerSource
from watchword.runtime.status import StatusChange, StatusWriter


class AddonParts(Struct, frozen=True):
    """What an add-on's hub controller is made of."""

    cache: Cache
    client: Client
    events: EventRecorder
    clock: Clock
    definitions: DefinitionLookup
    triggers: Sequence[Trigger] = ()  # whatever else changes a definition
    driver_steps: Sequence[AddonStep] = ()  # before rights are given: drivers make the subjects of these
    installer: AddonInstaller | None = None  # where this process follows install strategies
    trigger_source: TriggerSource | None = None
    approves: bool = False  # requests for the hub's own API; our hub approves these for all add-ons
    catalog: AddonCatalog = ADDON_CATALOG

    @property
    def ensurer(self) -> Ensurer:
        return Ensurer(self.cache, self.client)

    @property
    def status(self) -> StatusWriter:
        return StatusWriter(self.client, self.clock, self.cache)


USER_MANAGED_ROLES = {
    resources.CLUSTER_ROLES: WatchScope(labels=f"!{Label.CLUSTER_NAME}"),
    resources.ROLES: WatchScope(labels=f"!{Label.ADDON_CLUSTER},!{Label.TOKEN_INFRASTRUCTURE}"),
}
"""Roles that a grant may name: those of administrators, without the generated ones of clusters and add-ons."""


def register_informers(cache: Cache, addon: str = "", *, names_roles: bool = True) -> None:
    marked = f"{Label.ADDON_NAME}={addon}" if addon else Label.ADDON_NAME
    mine = WatchScope(fields=f"metadata.name={addon}") if addon else WatchScope()
    cache.informer(resources.MANAGED_CLUSTER_ADDONS, mine)
    cache.index(resources.MANAGED_CLUSTER_ADDONS, grants.BY_REFUSAL, grants.namespaces_of_refused)
    cache.informer(resources.MANAGED_CLUSTERS)
    for resource, scope in USER_MANAGED_ROLES.items() if names_roles else ():
        cache.informer(resource, scope)
    for resource in (resources.ROLES, resources.ROLE_BINDINGS):
        cache.informer(resource, WatchScope(labels=f"{marked},{Label.ADDON_CLUSTER}"))
        cache.index(resource, grants.INDEX, lambda obj: [str(key) for key in grants.addon_from_labels(obj)])
    for needed in ADDON_CATALOG.subject_objects:
        if not cache.informers(needed.resource):
            cache.informer(needed.resource, WatchScope(labels=needed.selector(addon)))
    cache.index(resources.ROLE_BINDINGS, grants.BY_ROLE, grants.bound_role)
    if not cache.informers(resources.MANIFEST_WORKS):
        cache.informer(resources.MANIFEST_WORKS, WatchScope(labels=marked))
    if not cache.informers(resources.CERTIFICATE_SIGNING_REQUESTS):
        cache.informer(resources.CERTIFICATE_SIGNING_REQUESTS, WatchScope(labels=f"{Label.CLUSTER_NAME},{marked}"))
    cache.index(
        resources.MANIFEST_WORKS, deployment.INDEX, lambda obj: [str(key) for key in deployment.addon_from_labels(obj)]
    )
    cache.index(
        resources.CERTIFICATE_SIGNING_REQUESTS, certificate_approval.INDEX, certificate_approval.index_open_requests
    )


class AddonReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn; triggered by everything that its steps read.

    One controller writes the hub's part of the status, once for all steps: several writers of one object make each
    other's versions outdated. The agent is the other writer.
    """

    reader: Reader
    status: StatusWriter
    definitions: DefinitionLookup
    steps: tuple[AddonStep, ...]
    installer: AddonInstaller | None = None

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(resources.MANAGED_CLUSTER_ADDONS, key)
        if self.installer is not None and await self.installer.install(key, found):
            return Done()  # the change triggers the key again
        if found is None:
            for step in self.steps:
                await step.remove(key)
            return Done()
        cluster = self.reader.get(resources.MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace))
        state = AddonState(
            Addon.read(found), None if cluster is None else Cluster.read(cluster), self.definitions(found)
        )
        results = [await _run_step(step, state) for step in self.steps]
        outcome = await self._report(key, found, results)
        for result in results:
            if result.error is not None:
                raise result.error
        return outcome

    async def _report(self, key: ObjectKey, found: Object, results: Sequence[StepResult]) -> Outcome:
        current = self.reader.get(resources.MANAGED_CLUSTER_ADDONS, key)
        if current is None or _version(current) != _version(found):
            return Done()  # the newer version has triggered the key again, and the server would refuse the write
        changes = [result.change for result in results]
        change = StatusChange(
            conditions=tuple(condition for change in changes for condition in change.conditions),
            without=tuple(type_ for change in changes for type_ in change.without),
            fields={name: value for change in changes for name, value in (change.fields or {}).items()},
        )
        delays = [result.retry_after for result in results if result.retry_after is not None]
        await self.status.write_rows_if_unchanged(resources.MANAGED_CLUSTER_ADDONS, found, change)
        return RetryAfter(min(delays)) if delays else Done()


def _version(obj: Object) -> tuple[str, str]:
    return uid_of(obj), str(obj["metadata"].get("resourceVersion") or "")


async def _run_step(step: AddonStep, state: AddonState) -> StepResult:
    try:
        return await step.run(state)
    except (KubeError, ControllerRuntimeError) as error:  # of this step alone
        return StepResult(error=error)


def controllers(parts: AddonParts) -> Iterable[ControllerSpec]:
    """Return every controller of an add-on: its root kind, what else triggers it, its reconciler."""
    cache = parts.cache
    rights = GrantWriter(cache, parts.client, parts.ensurer, parts.catalog)
    registering = RegistrationStep(cache, rights, parts.events, parts.catalog, _registration_triggers(parts))
    steps = (*parts.driver_steps, registering, DeploymentStep(cache, parts.client, parts.ensurer))
    yield ControllerSpec(
        "addons",
        resources.MANAGED_CLUSTER_ADDONS,
        AddonReconciler(cache, parts.status, parts.definitions, steps, parts.installer),
        (*(trigger for step in steps for trigger in step.triggers), *parts.triggers),
        workers=16,
        trigger_source=parts.trigger_source,
    )
    certificates = AddonRequestReconciler(
        cache, parts.client, parts.events, parts.clock, parts.definitions, parts.catalog, for_hub=parts.approves
    )
    yield ControllerSpec(
        "addon-certificates",
        resources.CERTIFICATE_SIGNING_REQUESTS,
        certificates,
        (Trigger(resources.MANAGED_CLUSTER_ADDONS, lambda obj: certificate_approval.pending_requests(cache, obj)),),
        concerns=certificate_approval.is_open_request,
        acts_on_deletion=False,
    )


def _registration_triggers(parts: AddonParts) -> tuple[Trigger, ...]:
    cache = parts.cache
    named = [
        resource
        for resource, scope in USER_MANAGED_ROLES.items()
        if any(informer.scope == scope for informer in cache.informers(resource))
    ]
    return (
        *(Trigger(resource, grants.addon_from_labels) for resource in (resources.ROLES, resources.ROLE_BINDINGS)),
        *(Trigger(needed.resource, needed.addons_of) for needed in parts.catalog.subject_objects),
        Trigger(resources.MANAGED_CLUSTERS, lambda obj: addons_affected_by_cluster(cache, obj)),
        *(Trigger(resource, lambda obj: grants.addons_affected_by_role(cache, obj)) for resource in named),
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
    await run_first_requests(lambda: _list_addon(client, definition.name), random, manager.metrics)
    await manager.run(stop)


async def _list_addon(client: Client, name: str) -> None:
    """Create the ClusterManagementAddOn by which a hub lists an add-on; an account that may not leaves it to others."""
    with suppress(AlreadyExists, Forbidden):
        entry = resources.CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name), spec={})
        await client.create(resources.CLUSTER_MANAGEMENT_ADDONS, entry)


def single_addon_lookup(definition: AddonDefinition) -> DefinitionLookup:
    return lambda addon: definition if addon["metadata"]["name"] == definition.name else None
