"""The agent of a managed cluster: joins one hub, stays itself, and takes up its duties once accepted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TypeAlias

from watchword._structlog import structlog
from watchword.agent.cluster_lease import LeaseRenewalReconciler
from watchword.agent.cluster_registration import Introduction, introduce
from watchword.agent.cluster_status import ClusterStatusReconciler, judge_rotated
from watchword.agent.correspondence import Correspondence
from watchword.agent.credential import CredentialReconciler, Keeping, Note, forget
from watchword.agent.credential_metrics import CountedCredential
from watchword.agent.errors import NameTaken
from watchword.agent.examination import Examiner
from watchword.agent.hub_access import HubAccess, HubConnector, Use
from watchword.agent.hub_connection import HubConnection, InOwnName
from watchword.agent.identity import Identity, recall_identity
from watchword.agent.options import AgentOptions
from watchword.agent.scopes import only, requests_of
from watchword.agent.secret_data import AGENT_NAME, CLUSTER_NAME, KUBECONFIG, Beside, HubKubeconfigs
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
from watchword.drivers.catalog import CATALOG, Catalog, find_cluster_driver
from watchword.drivers.interface import AgentContext, AgentDriver, NewKey, Wanted
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.retry import Backoff
from watchword.pki.keys import PrivateKey
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.connection import Connection
from watchword.runtime.manager import Job, Manager, ManagerOptions
from watchword.runtime.metrics import CredentialMetrics, Metrics
from watchword.runtime.reconcile import ControllerSpec, Reader, Wake
from watchword.runtime.waiting import running

HUB = "hub"
LOOK_AGAIN = timedelta(seconds=5)
FALLBACK_LOOK = timedelta(minutes=1)
INTRODUCTION_RETRY = Backoff(first=1.0, limit=300.0)


@dataclass(frozen=True)
class DutyParts:
    """What an accepted cluster's duties are made of: its own connection, the hub's, and who it is."""

    options: AgentOptions
    cluster: Connection
    hub: Connection
    clock: Clock
    random: Random
    add_job: Callable[[str, Job], None]  # for what runs beside the controllers, for ever
    hub_entry: Callable[[], ClusterEntry]  # the hub as a kubeconfig describes it at this moment
    credentials: CredentialMetrics
    new_key: NewKey = PrivateKey.generate
    catalog: Catalog = CATALOG
    is_itself: Callable[[], bool] = field(default=lambda: True, kw_only=True)  # in whose name the hub is asked
    note: Note = forget  # told of what is waited for, so that the hub's decisions are heard


Duty: TypeAlias = Callable[[DutyParts], Iterable[ControllerSpec]]
"""Asks the caches for what it follows and returns its controllers."""


Follow: TypeAlias = Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]
"""Notices for ever that the hub is somewhere else: looks also when the event is set, and calls back when it is."""


@dataclass(frozen=True)
class AgentParts:
    """What an agent stands on."""

    options: AgentOptions
    cluster: Client
    connector: HubConnector
    clock: Clock
    random: Random
    duties: Sequence[Duty] = ()
    metrics: Metrics = field(default_factory=Metrics)
    new_key: NewKey = PrivateKey.generate
    catalog: Catalog = CATALOG  # the drivers that there are
    follow: Follow | None = None  # None: the hub stays where it is
    manager: ManagerOptions = field(
        default_factory=lambda: ManagerOptions(name="watchword.dev/agent", identity="agent")
    )


class Agent:
    """One cluster's membership of one hub."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self._kubeconfigs = HubKubeconfigs(parts.connector.entry)
        self._log = structlog.get_logger("watchword.agent").bind(cluster=parts.options.cluster_name)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until asked to stop; raises what the manager raises."""
        parts = self._parts
        own = Cache.of(parts.cluster, parts.manager.follow)
        own.informer(SECRETS, only(parts.options.secret_key))
        async with running(own.run(), "own secret"):  # read from the watch that is needed anyway
            system = await parts.cluster.get(NAMESPACES, ObjectKey.cluster("kube-system"))
            await own.sync()
            identity = recall_identity(system, own.get(SECRETS, parts.options.secret_key), parts.options)
            await self._live(identity, own, stop)

    async def _live(self, identity: Identity, own: Cache, stop: asyncio.Event | None) -> None:
        parts = self._parts
        manager = Manager(parts.manager, clock=parts.clock, random=parts.random, metrics=parts.metrics)
        connection = HubConnection()
        cluster = manager.connect(parts.cluster, beside=own)
        client = Client(connection, user_agent="watchword-agent", random=parts.random)
        requests = Cache.of(client, parts.manager.follow)
        requests.informer(CERTIFICATE_SIGNING_REQUESTS, requests_of(identity.cluster))
        correspondence = Correspondence(requests, identity.secret_key)
        hub = manager.connect(client, name=HUB, beside=requests)
        driver = self._driver(hub)
        access = HubAccess(connection, parts.connector, hub.cache, identity.cluster, parts.clock)
        self._follow(cluster, hub, identity)
        await self._resume(access, driver, identity)
        manager.add(*self._controllers(cluster, hub, access, driver, identity, correspondence.note))
        parts.metrics.credentials.watch_skew(lambda: client.clock_skew)
        manager.add_job("introduction", lambda: self._introduce(hub.client, access, identity))
        if parts.follow is not None:
            follow, secret = parts.follow, identity.secret_key
            manager.add_job(
                "hub-whereabouts", lambda: follow(connection.doubted, lambda: connection.moved.ring(secret))
            )
        manager.add_job("duties", lambda: self._take_up_duties(cluster, hub, client, access, correspondence.note))
        try:
            async with running(correspondence.run(), "requests"), running(self._fall_back(access, hub), "fallback"):
                await manager.run(stop)
        finally:
            await connection.close()

    def _driver(self, hub: Connection) -> AgentDriver:
        entry = find_cluster_driver(self._parts.options.registration_auth, self._parts.catalog)
        return entry.agent(AgentContext(hub.client, hub.cache, self._parts.clock, self._parts.new_key))

    async def _resume(self, access: HubAccess, driver: AgentDriver, identity: Identity) -> None:
        """Begin with the credential on record when it is still good, else as a joining cluster."""
        good = driver.assess(self._wanted(identity), identity.held)
        if good is not None:
            await access.credential_changed(identity.secret_key, good, identity.held)
        await access.settle()
        while access.used is Use.NONE:
            self._log.warning("nothing to reach the hub with yet: waiting for a bootstrap kubeconfig")
            await asyncio.sleep(LOOK_AGAIN.total_seconds())
            await access.settle()

    async def _fall_back(self, access: HubAccess, hub: Connection) -> None:
        """Notice that the credential expires before the hub was ever heard: until then no controller runs."""
        while not hub.cache.synced:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FALLBACK_LOOK.total_seconds()):
                    await hub.cache.sync()
            await access.settle()

    def _wanted(self, identity: Identity, hub: Reader | None = None) -> Wanted:
        found = hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(identity.cluster)) if hub is not None else None
        asked = annotations_of(found or {}).get(Annotation.ROTATION_REQUEST, "")
        lifetime = self._parts.options.certificate_life
        return Wanted(identity.cluster, identity.subject, lifetime=lifetime, rotation=asked)

    def _follow(self, cluster: Connection, hub: Connection, identity: Identity) -> None:
        cluster.cache.informer(SECRETS, only(identity.secret_key))
        cluster.cache.informer(NODES, project=_without_images)
        cluster.cache.informer(CLUSTER_CLAIMS)
        hub.cache.informer(MANAGED_CLUSTERS, only(ObjectKey.cluster(identity.cluster)))
        hub.cache.informer(CERTIFICATE_SIGNING_REQUESTS, requests_of(identity.cluster))  # borrowed: see Correspondence

    def _controllers(
        self,
        cluster: Connection,
        hub: Connection,
        access: HubAccess,
        driver: AgentDriver,
        identity: Identity,
        note: Note,
    ) -> Iterable[ControllerSpec]:
        parts, own = self._parts, [ObjectKey.cluster(identity.cluster)]
        keeper = CredentialReconciler(
            cluster.cache,
            cluster.client,
            lambda key: self._keeping(driver, identity, hub.cache) if key == identity.secret_key else None,
            CountedCredential(parts.metrics.credentials, identity.cluster, parts.clock, access.credential_changed),
            parts.clock,
            note,
        )
        status = ClusterStatusReconciler(
            hub.cache,
            cluster.cache,
            hub.status,
            Examiner(parts.cluster, cluster.cache),
            parts.options.claims,
            lambda: judge_rotated(access.held, access.refusal),
            access.is_itself,
        )
        of_cluster = tuple(Wake(resource, lambda _: own) for resource in (NODES, CLUSTER_CLAIMS))
        to_secret = tuple(
            Wake(resource, lambda _: [identity.secret_key], origin=HUB)
            for resource in (MANAGED_CLUSTERS, CERTIFICATE_SIGNING_REQUESTS)
        )
        lease = LeaseRenewalReconciler(hub.cache, hub.client, parts.clock, parts.random, access.is_itself)
        yield ControllerSpec("hub-credential", SECRETS, keeper, to_secret, workers=1, bell=access.connection.moved)
        yield ControllerSpec("hub-access", MANAGED_CLUSTERS, access, workers=1, origin=HUB)
        yield ControllerSpec("cluster-lease", MANAGED_CLUSTERS, lease, workers=1, origin=HUB, bell=access.news)
        yield ControllerSpec(
            "cluster-status", MANAGED_CLUSTERS, status, of_cluster, workers=1, origin=HUB, bell=access.news
        )

    def _keeping(self, driver: AgentDriver, identity: Identity, hub: Reader) -> Keeping:
        frame: dict[str, bytes] = {
            KUBECONFIG: self._kubeconfigs.for_user(driver.user_entry()),
            CLUSTER_NAME: identity.cluster.encode(),
            AGENT_NAME: identity.agent.encode(),
        }
        return Keeping(self._wanted(identity, hub), driver, Beside(frame))

    async def _introduce(self, hub: Client, access: HubAccess, identity: Identity) -> None:
        """Create the ManagedCluster when joining; a cluster that has its own credential was introduced long ago."""
        options = self._parts.options
        introduction = Introduction(
            identity.cluster,
            identity.uid,
            [{"url": url} for url in options.external_urls],
            options.labels,
            options.annotations,
        )
        failures = 0
        while access.used is not Use.OWN:
            try:
                await introduce(hub, introduction)
                break
            except (KubeError, NameTaken) as trouble:
                failures += 1
                delay = INTRODUCTION_RETRY.delay(failures, self._parts.random)
                self._log.warning("not introduced to the hub yet", error=str(trouble), retry_in=round(delay, 1))
                await asyncio.sleep(delay)
        await asyncio.Event().wait()

    async def _take_up_duties(
        self, of_cluster: Connection, of_hub: Connection, client: Client, access: HubAccess, note: Note
    ) -> None:
        """Run add-ons and work once the hub has accepted this cluster; before that, it may not even look at them."""
        parts = self._parts
        await access.ready.wait()
        within = replace(parts.manager, lease=None, health=None)  # leading and healthy as the one that runs it
        manager = Manager(within, clock=parts.clock, random=parts.random, metrics=parts.metrics)
        cluster = manager.connect(parts.cluster, beside=of_cluster.cache)
        hub = manager.connect(client.over(InOwnName(access.connection)), name=HUB, beside=of_hub.cache)
        duty_parts = DutyParts(
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
            note,
        )
        for duty in parts.duties:
            manager.add(*duty(replace(duty_parts, is_itself=access.is_itself)))
        await manager.run()


def _without_images(node: Object) -> Object:
    """Keep of a node only what is reported: a node's list of images is longer than all the rest."""
    status = node.get("status") or {}
    kept = {name: status[name] for name in ("capacity", "allocatable") if name in status}
    return {**node, "status": kept}
