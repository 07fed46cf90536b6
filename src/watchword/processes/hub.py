"""The hub's controllers: what `watchword hub`, its pod and every local fleet run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.definition import AddonDefinition
from watchword.addons.hub.controllers import hub_addon_controllers
from watchword.api.addon import Addon
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CONFIG_MAPS, LEASES
from watchword.credentials.driver import HubContext, Settings
from watchword.discovery.cluster_info import ClusterAuthorities
from watchword.discovery.controllers import SCOPES, discovery_controllers
from watchword.discovery.tokens import BootstrapTokenValidator
from watchword.kube.client import Client
from watchword.kube.watch import WatchOptions
from watchword.registration.catalog import CATALOG, Catalog, HubDrivers
from watchword.registration.hub import controllers as registration
from watchword.registration.hub import credential_reports, installation
from watchword.registration.hub.cluster_acceptance import auto_acceptance_patch
from watchword.registration.hub.cluster_rbac import HubParts, RetiredClusterNames
from watchword.registration.hub.cluster_removal import RETENTION
from watchword.registration.hub.installation import install_agent_token_policy
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.event_loop import run_until_stopped
from watchword.runtime.manager import Manager, ProcessOptions, run_first_requests
from watchword.runtime.reconcile import ControllerSpec, Observer
from watchword.work.hub import work_controllers

HUB_LEASE = ObjectKey(HUB_NAMESPACE, "watchword-hub-lock")


class HubControllerContext(Struct, frozen=True):
    """What the controllers of a hub are made of, besides those of registration."""

    registration: HubParts
    drivers: HubContext  # for the controllers that drivers of add-ons bring
    signing_namespaces: frozenset[str]  # where templates may name authorities
    addons: tuple[AddonDefinition, ...] = ()  # built-in ones


HubExtension: TypeAlias = Callable[[HubControllerContext], Iterable[ControllerSpec]]
"""More controllers for the same process: add-ons, accounts. Asks the cache for what it watches."""


def addon_controllers(context: HubControllerContext) -> Iterable[ControllerSpec]:
    return hub_addon_controllers(
        context.drivers, signing_namespaces=context.signing_namespaces, built_in=context.addons
    )


HubService: TypeAlias = Callable[[Manager, ApiServerConnection], Awaitable[None]]
"""Runs in the same process while it leads, and decides itself when it has something to do."""


@dataclass(frozen=True, kw_only=True)
class HubOptions(ProcessOptions):
    """How a hub behaves."""

    identity: str = "hub"
    drivers: tuple[str, ...] = ()  # how clusters may register; empty: by the default driver alone
    catalog: Catalog = CATALOG  # where they are looked up
    settings: Settings = field(default_factory=dict)  # of the drivers
    auto_approval: bool = False  # the feature gate ManagedClusterAutoApproval
    demands_executor: bool = False  # of ManifestWorks: the feature gate NilExecutorValidating
    own_ca: bytes = b""
    signing_namespaces: frozenset[str] = frozenset()  # besides the hub's own
    left_cluster_retention: timedelta = RETENTION  # how long clusters that left are kept
    install: bool = True  # apply what the controllers need; off where another hand does it
    addons: tuple[AddonDefinition, ...] = ()  # built-in ones, each served once the list of add-ons names the hub
    services: Mapping[str, HubService] = field(default_factory=dict)  # that run beside the controllers


async def _install(client: Client, options: HubOptions) -> None:
    await installation.install(client, demands_executor=options.demands_executor)
    await install_agent_token_policy(client)


async def run_hub(
    client: Client,
    options: HubOptions,
    *,
    clock: Clock,
    random: Random,
    extensions: Sequence[HubExtension] = (),
    stop: asyncio.Event | None = None,
) -> None:
    """Run the hub's controllers until asked to stop; raises what the manager raises.

    A hub whose API server cannot be reached waits for it.
    """
    stop = stop or asyncio.Event()
    if options.install:
        first = run_first_requests(lambda: _install(client, options), random, options.metrics, options.health)
        if not await run_until_stopped(stop, first):
            return
    manager = options.make_manager("watchword.dev/hub", HUB_LEASE, clock, random)
    # Leases are renewed by every cluster every minute, and none of these renewals is urgent.
    follow = replace(options.follow or WatchOptions(), collect=frozenset({LEASES}))
    connection = manager.connect(client, follow=follow)
    context = hub_controller_context(connection, options, clock)
    parts = context.registration
    manager.add(*registration.controllers(parts))
    manager.add(*work_controllers(connection.cache, connection.client, clock))
    authorities = ClusterAuthorities(options.own_ca)
    manager.add(
        *discovery_controllers(connection.cache, connection.client, clock, connection.events, authorities=authorities)
    )
    manager.add(*_credential_observers(connection, options, parts))
    for extension in extensions:
        manager.add(*extension(context))
    for name, service in options.services.items():
        manager.add_job(name, partial(service, manager, connection))
    await manager.run(stop)


def find_addon_credential(addon: Object) -> Condition | None:
    return ADDON_CATALOG.find_credential(Addon.read(addon))


def _credential_observers(connection: ApiServerConnection, options: HubOptions, parts: HubParts) -> Iterable[Observer]:
    metrics, drivers = options.metrics.credentials, parts.drivers
    metrics.watch_skew(lambda: connection.client.clock_skew)
    measured = credential_reports.MeasuredCredentials(metrics, parts.clock)
    yield from credential_reports.expiry_metrics(measured, drivers, find_addon_credential)
    yield from credential_reports.revocation_metrics(parts.cache, metrics, parts.clock)
    yield from credential_reports.credential_events(
        parts.events, drivers.catalog.find_credential, find_addon_credential
    )


def hub_controller_context(connection: ApiServerConnection, options: HubOptions, clock: Clock) -> HubControllerContext:
    """Return what reconcilers need, and register the cache's informers."""
    registration.register_informers(connection.cache)
    for resource, scope in SCOPES:
        connection.cache.informer(resource, scope)
    context = HubContext(
        cache=connection.cache,
        client=connection.client,
        events=connection.events,
        clock=clock,
        validate_registration=BootstrapTokenValidator(connection.cache, connection.client),
        cluster_subjects=RetiredClusterNames(
            Ensurer(connection.cache, connection.client), clock, options.catalog.user_of
        ),
        settings=options.settings,
        auto_approval=options.auto_approval,
        is_certified=options.catalog.is_certified,
        # The drivers are made below.
        auto_acceptance=lambda cluster, driver: auto_acceptance_patch(
            connection.cache, drivers, cluster, driver=driver, now=clock.now()
        ),
    )
    drivers = HubDrivers.make(options.catalog, options.drivers, context)
    for server in drivers.servers:
        if server.published_scope is not None:
            connection.cache.informer(CONFIG_MAPS, server.published_scope)
    parts = HubParts(
        connection.cache, connection.client, connection.events, clock, drivers, options.left_cluster_retention
    )
    return HubControllerContext(parts, context, options.signing_namespaces | {HUB_NAMESPACE}, options.addons)
