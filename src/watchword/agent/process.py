"""The agent of a managed cluster: joins one hub, stays itself, and takes up its controller_factories once accepted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TypeAlias

from watchword._structlog import structlog
from watchword.agent.api_server_health import ApiServerHealthCheck
from watchword.agent.cluster_lease import LeaseRenewalReconciler
from watchword.agent.cluster_registration import RegistrationRequest, register_cluster
from watchword.agent.cluster_status import ClusterStatusReconciler, decide_rotated_condition
from watchword.agent.credential import CredentialReconciler, CredentialSpec, PendingTracker, track_nothing
from watchword.agent.credential_metrics import CredentialMetricsObserver
from watchword.agent.csr_watch import PendingCsrWatch
from watchword.agent.errors import NameTaken
from watchword.agent.hub_connection import HubConnection, OwnCredentialTransport
from watchword.agent.hub_session import ActiveCredential, HubConnector, HubSession
from watchword.agent.identity import AgentIdentity, restore_identity
from watchword.agent.options import AgentOptions
from watchword.agent.scopes import csr_scope, single_object_scope
from watchword.agent.secret_data import AGENT_NAME, CLUSTER_NAME, KUBECONFIG, HubKubeconfigRenderer, SecretExtras
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_CLAIMS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    NODES,
    SECRETS,
)
from watchword.drivers.catalog import CATALOG, DriverCatalog, find_cluster_driver
from watchword.drivers.interface import AgentContext, AgentDriver, NewKey, WantedCredential
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.retry import Backoff
from watchword.pki.keys import PrivateKey
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.manager import Job, Manager, ManagerOptions
from watchword.runtime.metrics import CredentialMetrics, Metrics
from watchword.runtime.reconcile import ControllerSpec, Reader, Trigger
from watchword.runtime.tasks import running

HUB = "hub"
BOOTSTRAP_CHECK_INTERVAL = timedelta(seconds=5)
FALLBACK_CHECK_INTERVAL = timedelta(minutes=1)
REGISTRATION_BACKOFF = Backoff(first=1.0, limit=300.0)


@dataclass(frozen=True)
class AgentControllerContext:
    """What an accepted cluster's controller_factories are made of: its own connection, the hub's, and who it is."""

    options: AgentOptions
    cluster: ApiServerConnection
    hub: ApiServerConnection
    clock: Clock
    random: Random
    add_job: Callable[[str, Job], None]  # for what runs beside the controllers, for ever
    hub_entry: Callable[[], ClusterEntry]  # the hub as a kubeconfig describes it at this moment
    credentials: CredentialMetrics
    new_key: NewKey = PrivateKey.generate
    catalog: DriverCatalog = CATALOG
    is_using_own_credential: Callable[[], bool] = field(
        default=lambda: True, kw_only=True
    )  # in whose name the hub is asked
    track_pending: PendingTracker = track_nothing  # told of what is waited for, so that the hub's decisions are heard


ControllerFactory: TypeAlias = Callable[[AgentControllerContext], Iterable[ControllerSpec]]
"""Asks the caches for what it follows and returns its controllers."""


RunEndpointMonitor: TypeAlias = Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]
"""Notices for ever that the hub is somewhere else: looks also when the event is set, and calls back when it is."""


@dataclass(frozen=True)
class AgentParts:
    """What an agent stands on."""

    options: AgentOptions
    cluster: Client
    connector: HubConnector
    clock: Clock
    random: Random
    controller_factories: Sequence[ControllerFactory] = ()
    metrics: Metrics = field(default_factory=Metrics)
    new_key: NewKey = PrivateKey.generate
    catalog: DriverCatalog = CATALOG  # the drivers that there are
    follow: RunEndpointMonitor | None = None  # None: the hub stays where it is
    manager: ManagerOptions = field(
        default_factory=lambda: ManagerOptions(name="watchword.dev/agent", identity="agent")
    )


class Agent:
    """One cluster's membership of one hub."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._kubeconfigs = HubKubeconfigRenderer(parts.connector.entry)
        self._log = structlog.get_logger("watchword.agent").bind(cluster=parts.options.cluster_name)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until asked to stop; raises what the manager raises."""
        parts = self._parts
        own = Cache.of(parts.cluster, parts.manager.follow)
        own.informer(SECRETS, single_object_scope(parts.options.secret_key))
        async with running(own.run(), "own secret"):  # read from the watch that is needed anyway
            system = await parts.cluster.get(NAMESPACES, ObjectKey.cluster("kube-system"))
            await own.sync()
            identity = restore_identity(system, own.get(SECRETS, parts.options.secret_key), parts.options)
            await self._run_manager(identity, own, stop)

    async def _run_manager(self, identity: AgentIdentity, own: Cache, stop: asyncio.Event | None) -> None:
        parts = self._parts
        manager = Manager(parts.manager, clock=parts.clock, random=parts.random, metrics=parts.metrics)
        connection = HubConnection()
        cluster = manager.connect(parts.cluster, beside=own)
        client = Client(connection, user_agent="watchword-agent", random=parts.random)
        requests = Cache.of(client, parts.manager.follow)
        requests.informer(CERTIFICATE_SIGNING_REQUESTS, csr_scope(identity.cluster))
        csr_watch = PendingCsrWatch(requests, identity.secret_key)
        hub = manager.connect(client, name=HUB, beside=requests)
        driver = self._driver(hub)
        access = HubSession(connection, parts.connector, hub.cache, identity.cluster, parts.clock)
        self._add_informers(cluster, hub, identity)
        await self._resume(access, driver, identity)
        manager.add(*self._controllers(cluster, hub, access, driver, identity, csr_watch.track_pending))
        parts.metrics.credentials.watch_skew(lambda: client.clock_skew)
        manager.add_job("registration", lambda: self._register(hub.client, access, identity))
        if parts.follow is not None:
            follow, secret = parts.follow, identity.secret_key
            manager.add_job(
                "hub-whereabouts",
                lambda: follow(connection.unreachable, lambda: connection.endpoint_changed.enqueue(secret)),
            )
        manager.add_job(
            "controller_factories",
            lambda: self._run_controllers_once_joined(cluster, hub, client, access, csr_watch.track_pending),
        )
        try:
            async with running(csr_watch.run(), "requests"), running(self._fall_back(access, hub), "fallback"):
                await manager.run(stop)
        finally:
            await connection.close()

    def _driver(self, hub: ApiServerConnection) -> AgentDriver:
        entry = find_cluster_driver(self._parts.options.registration_auth, self._parts.catalog)
        return entry.agent(AgentContext(hub.client, hub.cache, self._parts.clock, self._parts.new_key))

    async def _resume(self, access: HubSession, driver: AgentDriver, identity: AgentIdentity) -> None:
        """Begin with the credential on record when it is still good, else as a joining cluster."""
        good = driver.assess(self._wanted(identity), identity.held)
        if good is not None:
            await access.credential_changed(identity.secret_key, good, identity.held)
        await access.select_credential()
        while access.active_credential is ActiveCredential.NONE:
            self._log.warning("nothing to reach the hub with yet: waiting for a bootstrap kubeconfig")
            await asyncio.sleep(BOOTSTRAP_CHECK_INTERVAL.total_seconds())
            await access.select_credential()

    async def _fall_back(self, access: HubSession, hub: ApiServerConnection) -> None:
        """Notice that the credential expires before the hub was ever heard: until then no controller runs."""
        while not hub.cache.synced:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FALLBACK_CHECK_INTERVAL.total_seconds()):
                    await hub.cache.sync()
            await access.select_credential()

    def _wanted(self, identity: AgentIdentity, hub: Reader | None = None) -> WantedCredential:
        found = hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(identity.cluster)) if hub is not None else None
        asked = annotations_of(found or {}).get(Annotation.ROTATION_REQUEST, "")
        lifetime = self._parts.options.certificate_lifetime
        return WantedCredential(identity.cluster, identity.subject, lifetime=lifetime, rotation=asked)

    def _add_informers(self, cluster: ApiServerConnection, hub: ApiServerConnection, identity: AgentIdentity) -> None:
        cluster.cache.informer(SECRETS, single_object_scope(identity.secret_key))
        cluster.cache.informer(NODES, project=_without_images)
        cluster.cache.informer(CLUSTER_CLAIMS)
        hub.cache.informer(MANAGED_CLUSTERS, single_object_scope(ObjectKey.cluster(identity.cluster)))
        hub.cache.informer(CERTIFICATE_SIGNING_REQUESTS, csr_scope(identity.cluster))  # borrowed: see PendingCsrWatch

    def _controllers(
        self,
        cluster: ApiServerConnection,
        hub: ApiServerConnection,
        access: HubSession,
        driver: AgentDriver,
        identity: AgentIdentity,
        track_pending: PendingTracker,
    ) -> Iterable[ControllerSpec]:
        parts, own = self._parts, [ObjectKey.cluster(identity.cluster)]
        credential_reconciler = CredentialReconciler(
            cluster.cache,
            cluster.client,
            lambda key: self._credential_spec(driver, identity, hub.cache) if key == identity.secret_key else None,
            CredentialMetricsObserver(
                parts.metrics.credentials, identity.cluster, parts.clock, access.credential_changed
            ),
            parts.clock,
            track_pending,
        )
        status = ClusterStatusReconciler(
            hub.cache,
            cluster.cache,
            hub.status,
            ApiServerHealthCheck(parts.cluster, cluster.cache),
            parts.options.claims,
            lambda: decide_rotated_condition(access.held, access.refusal),
            access.is_using_own_credential,
        )
        of_cluster = tuple(Trigger(resource, lambda _: own) for resource in (NODES, CLUSTER_CLAIMS))
        to_secret = tuple(
            Trigger(resource, lambda _: [identity.secret_key], connection_name=HUB)
            for resource in (MANAGED_CLUSTERS, CERTIFICATE_SIGNING_REQUESTS)
        )
        lease = LeaseRenewalReconciler(hub.cache, hub.client, parts.clock, parts.random, access.is_using_own_credential)
        yield ControllerSpec(
            "hub-credential",
            SECRETS,
            credential_reconciler,
            to_secret,
            workers=1,
            trigger_source=access.connection.endpoint_changed,
        )
        yield ControllerSpec("hub-access", MANAGED_CLUSTERS, access, workers=1, connection_name=HUB)
        yield ControllerSpec(
            "cluster-lease",
            MANAGED_CLUSTERS,
            lease,
            workers=1,
            connection_name=HUB,
            trigger_source=access.status_changed,
        )
        yield ControllerSpec(
            "cluster-status",
            MANAGED_CLUSTERS,
            status,
            of_cluster,
            workers=1,
            connection_name=HUB,
            trigger_source=access.status_changed,
        )

    def _credential_spec(self, driver: AgentDriver, identity: AgentIdentity, hub: Reader) -> CredentialSpec:
        frame: dict[str, bytes] = {
            KUBECONFIG: self._kubeconfigs.for_user(driver.user_entry()),
            CLUSTER_NAME: identity.cluster.encode(),
            AGENT_NAME: identity.agent.encode(),
        }
        return CredentialSpec(self._wanted(identity, hub), driver, SecretExtras(frame))

    async def _register(self, hub: Client, access: HubSession, identity: AgentIdentity) -> None:
        """Create the ManagedCluster when joining; a cluster that has its own credential was introduced long ago."""
        options = self._parts.options
        registration = RegistrationRequest(
            identity.cluster,
            identity.uid,
            [{"url": url} for url in options.external_urls],
            options.labels,
            options.annotations,
        )
        failures = 0
        while access.active_credential is not ActiveCredential.OWN:
            try:
                await register_cluster(hub, registration)
                break
            except (KubeError, NameTaken) as trouble:
                failures += 1
                delay = REGISTRATION_BACKOFF.delay(failures, self._parts.random)
                self._log.warning("not introduced to the hub yet", error=str(trouble), retry_in=round(delay, 1))
                await asyncio.sleep(delay)
        await asyncio.Event().wait()

    async def _run_controllers_once_joined(
        self,
        of_cluster: ApiServerConnection,
        of_hub: ApiServerConnection,
        client: Client,
        access: HubSession,
        track_pending: PendingTracker,
    ) -> None:
        """Run add-ons and work once the hub has accepted this cluster; before that, it may not even look at them."""
        parts = self._parts
        await access.joined.wait()
        within = replace(parts.manager, lease=None, health=None)  # leading and healthy as the one that runs it
        manager = Manager(within, clock=parts.clock, random=parts.random, metrics=parts.metrics)
        cluster = manager.connect(parts.cluster, beside=of_cluster.cache)
        hub = manager.connect(client.over(OwnCredentialTransport(access.connection)), name=HUB, beside=of_hub.cache)
        context = AgentControllerContext(
            parts.options,
            cluster,
            hub,
            parts.clock,
            parts.random,
            manager.add_job,
            parts.connector.entry,
            parts.metrics.credentials,
            parts.new_key,
            parts.catalog,
            track_pending,
        )
        for factory in parts.controller_factories:
            manager.add(*factory(replace(context, is_using_own_credential=access.is_using_own_credential)))
        await manager.run()


def _without_images(node: Object) -> Object:
    """Keep of a node single_object_scope what is reported: a node's list of images is longer than all the rest."""
    status = node.get("status") or {}
    kept = {name: status[name] for name in ("capacity", "allocatable") if name in status}
    return {**node, "status": kept}
