"""The hub's controllers: what `watchword hub`, its pod and every local fleet run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.discovery.cluster_authorities import ClusterAuthorities
from watchword.discovery.controllers import SCOPES, discovery_controllers
from watchword.drivers.catalog import CATALOG, DriverCatalog, find_cluster_driver
from watchword.drivers.interface import AllowList, HubContext, HubDriver
from watchword.hub import controllers as registration
from watchword.hub import prerequisites
from watchword.hub.agent_token_policy import install_agent_token_policy
from watchword.hub.bootstrap_token_validation import BootstrapTokenValidator
from watchword.hub.credential_expiry_metrics import expiry_controllers
from watchword.hub.revocation_metrics import revocation_controllers
from watchword.kube.client import Client
from watchword.kube.watch import WatchOptions
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.backoff import Quarantine
from watchword.runtime.clock import Clock
from watchword.runtime.leader_election import ElectionTiming
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import CredentialMetrics, Metrics
from watchword.runtime.reconcile import ControllerSpec

LEASE = ObjectKey(HUB_NAMESPACE, "watchword-hub-lock")

HubExtension: TypeAlias = Callable[[registration.HubParts], Iterable[ControllerSpec]]
"""More controllers for the same process: add-ons, accounts. Asks the cache for what it watches."""


@dataclass(frozen=True)
class HubOptions:
    """How a hub behaves."""

    identity: str = "hub"
    drivers: tuple[str, ...] = ("csr",)
    catalog: DriverCatalog = CATALOG  # where they are looked up
    allow: AllowList = field(default_factory=AllowList)
    own_ca: bytes = b""
    signing_namespaces: frozenset[str] = frozenset()  # besides the hub's own
    install: bool = True  # apply what the controllers need; off where another hand does it
    elect: bool = True
    health: tuple[str, int] | None = None
    timing: ElectionTiming = field(default_factory=ElectionTiming)
    follow: WatchOptions | None = None
    quarantine: Quarantine = field(default_factory=Quarantine)
    metrics: Metrics = field(default_factory=Metrics, compare=False)


async def run_hub(
    client: Client,
    options: HubOptions,
    *,
    clock: Clock,
    random: Random,
    extensions: Sequence[HubExtension] = (),
    stop: asyncio.Event | None = None,
) -> None:
    """Run the hub's controllers until asked to stop; raises what the manager raises."""
    if options.install:
        await prerequisites.install(client)
        await install_agent_token_policy(client)
    manager = Manager(
        ManagerOptions(
            name="watchword.dev/hub",
            identity=options.identity,
            lease=LEASE if options.elect else None,
            timing=options.timing,
            health=options.health,
            follow=options.follow,
            quarantine=options.quarantine,
        ),
        clock=clock,
        random=random,
        metrics=options.metrics,
    )
    connection = manager.connect(client)
    parts = hub_parts(connection, options, clock)
    manager.add(*registration.controllers(parts))
    manager.add(
        *discovery_controllers(
            connection.cache, connection.client, clock, authorities=ClusterAuthorities(options.own_ca)
        )
    )
    manager.add(*_metric_controllers(connection, options.metrics.credentials, clock))
    for extension in extensions:
        manager.add(*extension(parts))
    await manager.run(stop)


def _metric_controllers(
    connection: ApiServerConnection, metrics: CredentialMetrics, clock: Clock
) -> Iterable[ControllerSpec]:
    metrics.watch_skew(lambda: connection.client.clock_skew)
    yield from expiry_controllers(connection.cache, metrics, clock)
    yield from revocation_controllers(connection.cache, metrics, clock)


def hub_parts(connection: ApiServerConnection, options: HubOptions, clock: Clock) -> registration.HubParts:
    """Return what reconcilers need, and register the cache's informers."""
    registration.register_informers(connection.cache)
    for resource, scope in SCOPES:
        connection.cache.informer(resource, scope)
    drivers = tuple(make_driver(name, connection, options, clock) for name in options.drivers)
    signing = options.signing_namespaces | {HUB_NAMESPACE}
    return registration.HubParts(connection.cache, connection.client, connection.events, clock, drivers, signing)


def make_driver(name: str, connection: ApiServerConnection, options: HubOptions, clock: Clock) -> HubDriver:
    """Return the hub's side of a driver; `UnknownDriver` when there is none of that name."""
    entry = find_cluster_driver(name, options.catalog)
    assert entry.hub is not None  # that is what makes it a driver by which clusters register
    policy = BootstrapTokenValidator(connection.cache, connection.client)
    return entry.hub(HubContext(connection.cache, connection.client, connection.events, clock, options.allow, policy))
