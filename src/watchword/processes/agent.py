"""The agent of a managed cluster: what `watchword agent`, its pod and every local fleet run."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.cluster import Cluster, validate_cluster_name
from watchword.api.meta import ObjectKey, Resource, annotations_of
from watchword.api.names import PROTECTED_NAMESPACES, Annotation, Label
from watchword.api.resources import (
    APPLIED_MANIFEST_WORKS,
    CERTIFICATE_SIGNING_REQUESTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.sensitive import HiddenFields
from watchword.credentials.credential_secret import CredentialKeeper, PendingCsrWatch, csr_scope
from watchword.credentials.driver import AgentContext, AgentDriver, NewKey, Side, WantedCredential, validate_options
from watchword.credentials.errors import DriverError, UnknownDriver
from watchword.credentials.evidence import CredentialClientFactory, SignerTiming
from watchword.discovery.discover import ClientFactory, HttpsClientFactory
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.watch import WatchOptions
from watchword.pki.keys import PrivateKey
from watchword.registration.agent import membership
from watchword.registration.agent.controllers import (
    CredentialMetricsObserver,
    HubCredentialReconciler,
    RegistrationParts,
    follow_claims,
    register_informers,
    registration_controllers,
)
from watchword.registration.agent.hub_connection import HubConnection, OwnCredentialTransport
from watchword.registration.agent.hub_endpoint import HubEndpoint, HubEndpointMonitor, original_server
from watchword.registration.agent.hub_session import ENDPOINT_CHECK_INTERVAL, HubSession
from watchword.registration.agent.options import AgentIdentity, AgentOptions, restore_identity
from watchword.registration.catalog import CATALOG, Catalog, make_connector
from watchword.registration.driver import (
    AnnotatesCluster,
    ClusterDriver,
    ConnectorContext,
    CredentialConnector,
    HubConnector,
)
from watchword.runtime.api_server_connection import HUB
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import run_until_stopped, running
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager, ManagerOptions, first_error, run_first_requests
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec
from watchword.runtime.work_queue import Quarantine


class ControllerFactory(Struct, frozen=True):
    """Controllers that run once the hub has an object of their kind, or this cluster what one left behind."""

    make: Callable[["Agent", Manager], Iterable[ControllerSpec]]  # the manager has connections to both API servers
    root: Resource  # on the hub, in the namespace of the cluster
    remains: Resource  # on the cluster
    remains_scope: Callable[[AgentOptions], WatchScope] = lambda _: WatchScope()


def _addon_controllers(agent: "Agent", manager: Manager) -> Iterable[ControllerSpec]:
    """Keep the credentials of add-ons, and report the health of the add-ons."""
    from watchword.addons.agent.controllers import AddonAgentContext, controllers

    options, runtime = agent.options, agent.runtime
    return controllers(
        AddonAgentContext(
            cluster_name=options.cluster_name,
            addon_namespace=options.addon_namespace,
            own_secret=options.secret_key,
            addon_auth=options.addon_auth,
            settings=options.settings,
            session=agent.session,
            cluster=manager.connections[""],
            hub=manager.connections[HUB],
            csr_watch=agent.csr_watch,
            clock=runtime.clock,
            metrics=runtime.metrics,
            new_key=runtime.new_key,
            manager=manager,
            random=runtime.random,
            connect=_show_credentials(agent.session),
            signer_timing=runtime.signer_timing,
        )
    )


def _show_credentials(session: HubSession) -> CredentialClientFactory | None:
    connector = session.connector
    if not isinstance(connector, CredentialConnector):
        return None
    return lambda credential: connector.with_credential(session.endpoint.entry(), credential)


def _work_controllers(agent: "Agent", manager: Manager) -> Iterable[ControllerSpec]:
    return make_work_controllers(agent.options, manager, agent.session.endpoint, agent.runtime.random)


def make_work_controllers(
    options: AgentOptions, manager: Manager, endpoint: HubEndpoint, random: Random
) -> Iterable[ControllerSpec]:
    from watchword.work.controllers import WorkContext, WorkTiming, controllers

    return controllers(
        WorkContext(
            cluster_name=options.cluster_name,
            agent_id=f"{options.namespace}/{options.hub_secret}",
            hub_address=lambda: original_server(endpoint.entry()),
            manager=manager,
            cluster=manager.connections[""],
            hub=manager.connections[HUB],
            clock=manager.clock,
            random=random,
            timing=WorkTiming(options.eviction_grace, options.feedback_interval, options.work_recheck),
            protected_namespaces=(PROTECTED_NAMESPACES | {options.namespace}) - options.work_namespaces,
        )
    )


addon_controllers = ControllerFactory(
    _addon_controllers,
    MANAGED_CLUSTER_ADDONS,
    SECRETS,
    lambda options: WatchScope(
        options.addon_namespace, labels=f"{Label.CLUSTER_NAME}={options.cluster_name},{Label.ADDON_NAME}"
    ),
)
work_controllers = ControllerFactory(_work_controllers, MANIFEST_WORKS, APPLIED_MANIFEST_WORKS)
CONTROLLER_FACTORIES = (addon_controllers, work_controllers)
"""Each imports its pillar when it is first needed: a cluster without add-ons and works does not pay for them."""


REMAINS_CHECK_INTERVAL = timedelta(minutes=10)  # of add-ons and works that went while no agent ran


class AgentRuntime(HiddenFields, frozen=True, kw_only=True):
    """What an agent runs on; everything but clock and randomness has the value that the program uses."""

    hidden = ("environment",)

    clock: Clock
    random: Random
    controllers: Sequence[ControllerFactory] = CONTROLLER_FACTORIES  # once the cluster is accepted
    metrics: Metrics = field(default_factory=Metrics)
    new_key: NewKey = PrivateKey.generate
    catalog: Catalog = CATALOG
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)  # of the agent's process or pod
    connector: HubConnector | None = None  # None: by the bootstrap kubeconfig of the options
    client_factory: ClientFactory | None = None  # None: over sockets; with a connector, the hub is not followed
    follow: WatchOptions | None = None
    quarantine: Quarantine = field(default_factory=Quarantine)
    signer_timing: SignerTiming | None = None  # of the hub's tokens; None: that of production
    endpoint_check: timedelta = ENDPOINT_CHECK_INTERVAL
    cluster_check: timedelta = membership.CLUSTER_CHECK_INTERVAL


async def run_agent(
    cluster: Client, options: AgentOptions, *, runtime: AgentRuntime, stop: asyncio.Event | None = None
) -> None:
    """Join the hub and serve it until asked to stop; raises what the manager raises."""
    stop, is_held_kept = stop or asyncio.Event(), True
    while not stop.is_set():
        try:
            await _run_agent(cluster, options, runtime, stop, is_held_kept=is_held_kept)
        except _DriverReleased:
            is_held_kept = False
        else:
            return


class _DriverReleased(Exception):
    """The hub's acceptance for the driver whose credential is held has ended: the configured driver takes over."""


async def _run_agent(
    cluster: Client, options: AgentOptions, runtime: AgentRuntime, stop: asyncio.Event, *, is_held_kept: bool
) -> None:
    own = Cache.of(cluster, runtime.follow)
    own.informer(SECRETS, WatchScope.single(options.secret_key))
    async with running(own.run(), "own secret"):  # read from the watch that is needed anyway
        first = run_first_requests(own.sync, runtime.random, runtime.metrics, options.health)
        if not await run_until_stopped(stop, first):
            return
        system = await cluster.get(NAMESPACES, ObjectKey.cluster("kube-system"))
        identity = restore_identity(system, own.get(SECRETS, options.secret_key), options)
        await Agent(cluster, options, runtime, identity, own, is_held_kept=is_held_kept).run(stop)


class Agent:
    """One cluster's membership of one hub, put together."""

    def __init__(
        self,
        cluster: Client,
        options: AgentOptions,
        runtime: AgentRuntime,
        identity: AgentIdentity,
        own: Cache,
        *,
        is_held_kept: bool,
    ) -> None:
        self.options, self.runtime, self.identity, self.cluster_client = options, runtime, identity, cluster
        self.own = own
        self.manager = Manager(
            _manager_options(options, runtime), clock=runtime.clock, random=runtime.random, metrics=runtime.metrics
        )
        self.connection = HubConnection()
        self.hub_client = Client(self.connection, user_agent="watchword-agent", random=runtime.random)
        requests = Cache.of(self.hub_client, runtime.follow)
        requests.informer(CERTIFICATE_SIGNING_REQUESTS, csr_scope(identity.cluster))
        self.csr_watch = PendingCsrWatch(requests, identity.secret_key)
        self.cluster = self.manager.connect(cluster, beside=own)
        self.hub = self.manager.connect(self.hub_client, name=HUB, beside=requests)
        register_informers(self.cluster, self.hub, identity)
        context = AgentContext(
            hub=self.hub.client,
            reader=self.hub.cache,
            clock=runtime.clock,
            new_key=runtime.new_key,
            settings=options.settings,
        )
        self.wanted_driver = self.cluster_driver = runtime.catalog.find(options.registration_auth)
        driver = self.wanted_driver.agent(context)
        if is_held_kept:
            driver = self._keep_held_driver(context) or driver
        self.session = self._open_session(driver)
        self.credential = self._make_credential_reconciler(driver, self._keys_of_others(driver, context))

    async def run(self, stop: asyncio.Event) -> None:
        """Connect to the hub with a stored or bootstrap credential, and run the controllers until stopped."""
        valid = self.credential.driver.assess(self.credential.wanted(), self.identity.held)
        try:
            if not await run_until_stopped(stop, self.session.resume(valid, self.identity.held)):
                return
            self._add_controllers()
            async with asyncio.TaskGroup() as group:
                secret = self.identity.secret_key
                report = self.connection.report.report(self.cluster_client, self.own, secret, self.runtime.random)
                leave = membership.leave_when_asked(
                    self.session, self.hub_client, self.cluster_client, self.own, secret
                )
                work = (self.csr_watch.run(), self.session.run(), report, leave)
                tasks = [group.create_task(each) for each in work]
                await self.manager.run(stop)
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            await self.connection.close()

    def _keep_held_driver(self, context: AgentContext) -> AgentDriver | None:
        """Continue with another driver whose credential is held and good: the hub may have accepted that one alone."""
        holder = self._find_holder()
        if holder is None or holder is self.wanted_driver:
            return None
        try:
            driver = holder.agent(context)
        except DriverError:  # its settings are gone
            return None
        wanted = WantedCredential(self.identity.cluster, self.identity.subject)
        if driver.assess(wanted, self.identity.held) is None:
            return None
        self.cluster_driver = holder
        return driver

    async def _await_release(self) -> None:
        """Hand over to the configured driver once the hub's acceptance is not for the held one alone any more."""
        key = ObjectKey.cluster(self.identity.cluster)
        changed = membership.follow_cluster(self.hub, self.session)
        while self.cluster_driver is not self.wanted_driver:
            await membership.wait_changed(changed, self.runtime.cluster_check)
            found = self.hub.cache.get(MANAGED_CLUSTERS, key)
            noted = annotations_of(found or {}).get(Annotation.ACCEPTED_DRIVER, "")
            is_released = found is not None and (noted == self.wanted_driver.name or not Cluster.read(found).accepted)
            if is_released and self.session.connector.has_bootstrap_credential():
                raise _DriverReleased
        await asyncio.Event().wait()

    def _open_session(self, driver: AgentDriver) -> HubSession:
        runtime = self.runtime
        connector = runtime.connector or make_connector(
            self.cluster_driver,
            ConnectorContext(
                cluster=self.identity.cluster,
                bootstrap=self.options.bootstrap_kubeconfig,
                settings=self.options.settings,
                environment=runtime.environment,
            ),
        )
        endpoint = HubEndpoint(connector)
        factory = runtime.client_factory or (HttpsClientFactory() if runtime.connector is None else None)
        return HubSession(
            cluster_name=self.identity.cluster,
            connection=self.connection,
            connector=connector,
            endpoint=endpoint,
            user=driver.user_entry(),
            hub=self.hub.cache,
            clock=runtime.clock,
            random=runtime.random,
            monitor=HubEndpointMonitor(endpoint=endpoint, client_factory=factory) if factory is not None else None,
            endpoint_check=runtime.endpoint_check,
        )

    def _keys_of_others(self, driver: AgentDriver, context: AgentContext) -> frozenset[str]:
        """Return the keys of the Secret that belong to the driver which served before; none without its settings."""
        holder = self._find_holder()
        with contextlib.suppress(DriverError):
            if holder is not None and holder is not self.cluster_driver:
                return holder.agent(context).owned_keys() - driver.owned_keys()
        return frozenset()

    def _find_holder(self) -> ClusterDriver | None:
        held, catalog = self.identity.held, self.runtime.catalog
        return catalog.by_name.get(catalog.holder_of(held)) if held else None

    def _make_credential_reconciler(
        self, driver: AgentDriver, obsolete_keys: frozenset[str]
    ) -> HubCredentialReconciler:
        clock, metrics = self.runtime.clock, self.runtime.metrics.credentials
        metrics.watch_skew(lambda: self.hub_client.clock_skew)
        keeper = CredentialKeeper(
            reader=self.cluster.cache, cluster=self.cluster.client, clock=clock, csr_watch=self.csr_watch
        )
        return HubCredentialReconciler(
            identity=self.identity,
            driver=driver,
            keeper=keeper,
            session=self.session,
            hub=self.hub.cache,
            metrics=CredentialMetricsObserver(metrics, self.identity.cluster, clock),
            obsolete_keys=obsolete_keys,
        )

    def _add_controllers(self) -> None:
        parts = RegistrationParts(
            options=self.options,
            identity=self.identity,
            cluster=self.cluster,
            hub=self.hub,
            cluster_client=self.cluster_client,
            session=self.session,
            credential=self.credential,
            credential_kind=self.cluster_driver.credential,
            clock=self.runtime.clock,
            random=self.runtime.random,
        )
        self.manager.add(*registration_controllers(parts))
        request = self._registration_request()
        self.manager.add_job(
            "registration",
            partial(membership.keep_registered, self.hub, self.session, request, self.runtime.cluster_check),
        )
        self.manager.add_job("driver", self._await_release)
        self.manager.add_job("cluster-claims", partial(follow_claims, self.cluster))
        self.manager.add_job("accepted", self._serve_once_joined)

    def _registration_request(self) -> membership.RegistrationRequest:
        driver, catalog = self.wanted_driver, self.runtime.catalog
        claim = driver.annotate(self.options.settings) if isinstance(driver, AnnotatesCluster) else {}
        return membership.RegistrationRequest(
            self.identity.cluster,
            self.identity.uid,
            [{"url": url} for url in self.options.external_urls],
            self.options.labels,
            self.options.annotations,
            {**dict.fromkeys(catalog.driver_annotations), **claim},
        )

    async def _serve_once_joined(self) -> None:
        """Serve add-ons and works once the hub has accepted this cluster; before that, it may not even list them."""
        await self.session.wait_joined()
        watched = Cache.of(self.hub_client, self.runtime.follow, beside=self.hub.cache)
        async with running(watched.run(), "add-ons and works"), asyncio.TaskGroup() as group:
            for factory in self.runtime.controllers:
                group.create_task(self._serve_when_needed(factory, watched))
            await asyncio.Event().wait()

    async def _serve_when_needed(self, factory: ControllerFactory, watched: Cache) -> None:
        informer, changed = watched.informer(factory.root, WatchScope(self.identity.cluster)), asyncio.Event()
        informer.add_handler(lambda _: changed.set())
        await informer.sync()
        # A cluster that has just joined is looked at later: most have nothing.
        delay = timedelta(0) if self.identity.held else REMAINS_CHECK_INTERVAL
        while not informer.store:
            await membership.wait_changed(changed, delay)
            if informer.store or await self._has_remains(factory):
                break
            delay = REMAINS_CHECK_INTERVAL
        await self._serve(factory, watched)

    async def _has_remains(self, factory: ControllerFactory) -> bool:
        scope = factory.remains_scope(self.options)
        try:
            found = await self.cluster_client.list(factory.remains, namespace=scope.namespace, labels=scope.labels)
        except KubeError:  # not served, or not at this moment
            return False
        return bool(found.items)

    async def _serve(self, factory: ControllerFactory, watched: Cache) -> None:
        runtime = self.runtime
        within = replace(self.manager.options, lease=None, health=None)  # leads and serves health as the outer one
        manager = Manager(within, clock=runtime.clock, random=runtime.random, metrics=runtime.metrics)
        as_itself = self.hub_client.over(OwnCredentialTransport(self.connection))
        manager.connect(self.cluster_client, beside=self.cluster.cache)
        manager.connect(as_itself, name=HUB, beside=watched)
        manager.add(*factory.make(self, manager))
        await manager.run()


def _manager_options(options: AgentOptions, runtime: AgentRuntime) -> ManagerOptions:
    return ManagerOptions(
        name="watchword.dev/agent",
        identity=options.identity,
        lease=options.lease_key if options.elect else None,
        timing=options.timing,
        health=options.health,
        follow=runtime.follow,
        quarantine=runtime.quarantine,
    )


def validate_agent_options(options: AgentOptions, catalog: Catalog = CATALOG) -> list[str]:
    objections = [validate_cluster_name(options.cluster_name) or ""]
    chosen = []
    try:
        chosen.append(catalog.find(options.registration_auth).name)
    except UnknownDriver as unknown:
        objections.append(str(unknown))
    try:
        ADDON_CATALOG.find(options.addon_auth)
    except UnknownDriver as unknown:
        objections.append(str(unknown))
    objections += catalog.validate(Side.CLUSTER, options.settings, *chosen)
    objections += validate_options(ADDON_CATALOG.options, options.settings)
    objections += [
        f"{url!r} is not an https address" for url in options.external_urls if not url.startswith("https://")
    ]
    return [objection for objection in objections if objection]


def agent_option_warnings(options: AgentOptions) -> list[str]:
    known = (*CATALOG.options(Side.CLUSTER), *ADDON_CATALOG.options)
    rows = [(option, option.read(options.settings)) for option in known]
    return [warning for option, value in rows if value and (warning := option.warn(value))]
