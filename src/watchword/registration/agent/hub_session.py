"""Owns how the agent reaches its hub: the endpoint, the credential and the connection."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from random import Random

import structlog
from msgspec import Struct

from watchword.api.conditions import is_true
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.credentials.credential_secret import HubKubeconfigRenderer
from watchword.credentials.driver import KUBECONFIG, NewCredential, ObtainResult, Pending, SecretData, ValidCredential
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import UserEntry
from watchword.registration import driver
from watchword.registration.agent.hub_connection import HubConnection
from watchword.registration.agent.hub_endpoint import HubEndpoint, HubEndpointMonitor
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, RetryAfter, TriggerSource

BOOTSTRAP_CHECK_INTERVAL = timedelta(seconds=5)
EXPIRY_CHECK_INTERVAL = timedelta(minutes=15)  # at most: the system clock may be set meanwhile
ENDPOINT_CHECK_INTERVAL = timedelta(minutes=15)
MIN_ENDPOINT_CHECK_INTERVAL = timedelta(minutes=1)  # also while the hub cannot be reached


REFUSAL_PATIENCE = timedelta(minutes=10)  # servers that start, or lose their webhook, refuse everything for a while
NAMELESS = "nameless"  # a credential without an identifier, such as an exec entry
NAMELESS_RETRY = timedelta(minutes=5)  # it is the same after the cluster was accepted again
REFUSAL_RETRY = timedelta(minutes=30)
REFUSAL_TRIAL = timedelta(minutes=2)  # some renewals of the lease


class ActiveCredential(Enum):
    """Which credential the connection uses."""

    OWN = auto()
    BOOTSTRAP = auto()
    NONE = auto()


class CredentialFacts(Struct, frozen=True):
    """What the choice depends on."""

    has_own: bool  # whether there is a credential of one's own that the hub does not refuse
    own_until: datetime | None  # None: it does not expire
    accepted: bool | None  # None: the hub has not answered yet
    has_bootstrap_credential: bool


def choose_active_credential(facts: CredentialFacts, *, now: datetime) -> ActiveCredential:
    """Choose one's own credential once the hub accepts it, and the bootstrap credential when it has expired.

    Before acceptance the own certificate may not even read the ManagedCluster, so the hub is watched as a joining
    cluster until it accepts. A hub that has not answered yet is first asked with what worked before the restart.
    """
    valid = facts.has_own and (facts.own_until is None or now < facts.own_until)
    if valid and (facts.accepted is not False or not facts.has_bootstrap_credential):
        return ActiveCredential.OWN
    return ActiveCredential.BOOTSTRAP if facts.has_bootstrap_credential else ActiveCredential.NONE


def is_new_refusal(answer: Pending, known: Pending | None) -> bool:
    """Whether the hub refuses for another reason than before; the time until the next attempt is no reason."""
    if not answer.failed:
        return False
    return known is None or (answer.reason, answer.message) != (known.reason, known.message)


@dataclass(kw_only=True)
class HubSession:
    """The one owner of endpoint, credential and connection; others read it, or are triggered by `changed`."""

    cluster_name: str
    connection: HubConnection
    connector: driver.HubConnector
    endpoint: HubEndpoint
    user: UserEntry  # of the kubeconfig that goes with the cluster's own credential
    hub: Cache
    clock: Clock
    random: Random
    monitor: HubEndpointMonitor | None = None  # None: the hub stays where it is
    endpoint_check: timedelta = ENDPOINT_CHECK_INTERVAL
    changed: TriggerSource = field(default_factory=TriggerSource)  # the endpoint, the credential, or a refusal of it
    held: NewCredential | ValidCredential | None = field(default=None, init=False)
    refusal: Pending | None = field(default=None, init=False)  # the hub's last refusal, until it issues another
    active_credential: ActiveCredential = field(default=ActiveCredential.NONE, init=False)
    used_credential_id: str = field(default="", init=False)  # of the own credential that the connection uses
    refused_id: str = field(default="", init=False)  # of the own credential that the hub refuses; empty: it does not
    kubeconfigs: HubKubeconfigRenderer = field(init=False)
    _is_trial: bool = field(default=False, init=False)  # whether a refused credential is tried again
    _data: SecretData = field(default_factory=dict, init=False, repr=False)
    _in_use: SecretData | driver.BootstrapCredential | None = field(default=None, init=False, repr=False)
    _bootstrap: driver.BootstrapCredential | None = field(default=None, init=False)  # the last one that was considered
    _joined: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _selecting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.kubeconfigs = HubKubeconfigRenderer(self.endpoint)

    @property
    def uses_own_credential(self) -> bool:
        return self.connection.uses_own_credential

    @property
    def own_until(self) -> datetime | None:
        """Until when the cluster's own credential is valid; None without one."""
        return None if self.held is None else self.held.expires_at

    @property
    def requester(self) -> str:
        """The user as which the agent joins, when the bootstrap credential tells; empty else."""
        known = self._in_use if self.active_credential is ActiveCredential.BOOTSTRAP else None
        return known.requester if isinstance(known, driver.BootstrapCredential) else ""

    async def resume(self, valid: ValidCredential | None, data: SecretData) -> None:
        """Begin with what the Secret holds; return once there is a credential to reach the hub with."""
        self._bootstrap = driver.bootstrap_credential_of(self.connector)
        self.endpoint.restore(data)
        if isinstance(self.connector, driver.OwnEndpoint):
            self.connector.restore_endpoint(data)
        if valid is not None:
            await self.update_credential(valid, data)
        await self.select_credential()
        while self.active_credential is ActiveCredential.NONE:
            structlog.get_logger("watchword.registration.agent").warning(
                "no credential for the hub yet: waiting for a bootstrap kubeconfig", cluster=self.cluster_name
            )
            await asyncio.sleep(BOOTSTRAP_CHECK_INTERVAL.total_seconds())
            await self.select_credential()

    async def update_credential(self, answer: ObtainResult, data: SecretData) -> None:
        if isinstance(answer, NewCredential | ValidCredential):
            is_changed = dict(data) != dict(self._data) or self.refusal is not None
            self.held, self.refusal, self._data = answer, None, data
            if self.endpoint.current is None:
                self.endpoint.restore(data)
            await self.select_credential()
        else:
            is_changed = is_new_refusal(answer, self.refusal)
            self.refusal = answer if answer.failed else self.refusal
        if is_changed:
            self._notify()

    async def select_credential(self) -> None:
        async with self._selecting:  # a second caller finds it done
            facts = self._credential_facts()
            use = choose_active_credential(facts, now=self.clock.now())
            try:
                await self._switch(use)
            except ConfigError as error:
                log = structlog.get_logger("watchword.registration.agent")
                log.warning("the credential for the hub cannot be used", error=str(error), cluster=self.cluster_name)
        found = self.hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.cluster_name)) or {}
        if self.active_credential is ActiveCredential.OWN and facts.accepted and is_true(found, ConditionType.JOINED):
            self._joined.set()

    async def wait_joined(self) -> None:
        """Return once the hub knows that this cluster has joined, and the cluster's own credential is in use."""
        await self._joined.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_expiry(), name="hub credential expiry")
            group.create_task(self._watch_refusal(), name="hub credential refusal")
            if self.monitor is not None or isinstance(self.connector, driver.OwnEndpoint):
                group.create_task(self._follow_endpoint(), name="hub endpoint")
            if isinstance(self.connector, driver.ReplaceableBootstrap):
                group.create_task(self._watch_bootstrap(self.connector), name="bootstrap credential")

    async def _watch_expiry(self) -> None:
        """Detect that the credential expires before the hub ever responded: until then no controller runs."""
        while not self.hub.synced:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._expiry_check_delay().total_seconds()):
                    await self.hub.sync()
            await self.select_credential()
        await asyncio.Event().wait()

    def _expiry_check_delay(self) -> timedelta:
        """Return how long nothing can change but the clock: until the credential expires, if that is soon."""
        left = EXPIRY_CHECK_INTERVAL if self.own_until is None else self.own_until - self.clock.now()
        return min(left, EXPIRY_CHECK_INTERVAL) if left > timedelta(0) else EXPIRY_CHECK_INTERVAL

    async def _watch_refusal(self) -> None:
        while True:
            await self.connection.refused.wait()
            await asyncio.sleep(REFUSAL_PATIENCE.total_seconds())
            is_refused = self.connection.refused_for >= REFUSAL_PATIENCE.total_seconds()
            if is_refused and self.held is not None and self.connector.has_bootstrap_credential():
                self.refused_id = self.held.credential_id or NAMELESS
                while self._is_held_refused():
                    await self.select_credential()
                    self._notify()
                    pause = NAMELESS_RETRY if self.refused_id == NAMELESS else REFUSAL_RETRY
                    await asyncio.sleep(pause.total_seconds())
                    await self._try_refused()
                self.refused_id = ""
                self._notify()

    async def _try_refused(self) -> None:
        """Use the refused credential for a while; only an answer other than 401 ends the refusal."""
        self._is_trial = True
        await self.select_credential()
        await asyncio.sleep(REFUSAL_TRIAL.total_seconds())
        self._is_trial = False
        if self.connection.honoured.is_set() and not self.connection.refused.is_set():
            self.refused_id = ""

    def _is_held_refused(self) -> bool:
        return self.held is not None and (self.held.credential_id or NAMELESS) == self.refused_id

    async def _follow_endpoint(self) -> None:
        """Read the hub's endpoint at the start, when the hub cannot be reached, and four times an hour."""
        unreachable = self.connection.unreachable
        if await self._check_configuration():
            await self._endpoint_changed()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.endpoint_check.total_seconds() * self.random.uniform(0.8, 1.2)):
                    await unreachable.wait()
            unreachable.clear()
            is_adopted = await self._check_configuration()
            if (self.monitor is not None and await self.monitor.check_published()) or is_adopted:
                await self._endpoint_changed()
            await asyncio.sleep(MIN_ENDPOINT_CHECK_INTERVAL.total_seconds())

    async def _check_configuration(self) -> bool:
        """Adopt what administrators configured anew; return whether another endpoint is in use."""
        is_adopted = isinstance(self.connector, driver.OwnEndpoint) and await self.connector.check_endpoint()
        return (self.monitor is not None and await self.monitor.check_configuration()) or is_adopted

    async def _watch_bootstrap(self, connector: driver.ReplaceableBootstrap) -> None:
        """Use a replaced bootstrap kubeconfig at once: its credential while joining, its address always."""
        while True:
            await asyncio.sleep(BOOTSTRAP_CHECK_INTERVAL.total_seconds())
            found = connector.bootstrap_credential()
            if found is None or found == self._bootstrap:
                continue
            self._bootstrap = found
            if await self._check_configuration():
                await self._endpoint_changed()
            else:
                await self.select_credential()

    async def _endpoint_changed(self) -> None:
        log = structlog.get_logger("watchword.registration.agent")
        log.info("the hub's endpoint changed", server=self.endpoint.entry().server, cluster=self.cluster_name)
        await self.select_credential()
        self._notify()

    async def _switch(self, use: ActiveCredential) -> None:
        """Exchange the connection unless it uses this credential already; a write's response may have been lost."""
        wanted = self._wanted_connection(use)
        if use is ActiveCredential.NONE or (use == self.active_credential and wanted == self._in_use):
            self.active_credential = use
            return
        if isinstance(wanted, driver.BootstrapCredential | None):
            transport, held = self.connector.joining(), None
        else:
            transport, held = self.connector.own(wanted), self.held
        # Before the connection is used: what is reported over it names its own credential.
        self.used_credential_id = "" if held is None else held.credential_id
        await self.connection.use(transport, own=held is not None)
        self.active_credential, self._in_use = use, wanted
        log = structlog.get_logger("watchword.registration.agent")
        log.info("connected to the hub", credential=use.name.lower(), cluster=self.cluster_name)
        self._notify()

    def _wanted_connection(self, use: ActiveCredential) -> SecretData | driver.BootstrapCredential | None:
        if use is ActiveCredential.OWN:  # the Secret's own kubeconfig may be damaged, or name an address that is gone
            own = {KUBECONFIG: self.kubeconfigs.for_user(self.user), **driver.endpoint_data_of(self.connector)}
            return {**self._data, **own}
        return driver.bootstrap_credential_of(self.connector)

    def _notify(self) -> None:
        self.changed.enqueue(ObjectKey.cluster(self.cluster_name))

    def _credential_facts(self) -> CredentialFacts:
        found = self.hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.cluster_name))
        accepted = None if found is None else is_true(found, ConditionType.HUB_ACCEPTED)
        if accepted is None and self.active_credential is ActiveCredential.BOOTSTRAP:
            accepted = False  # the request was made as a joining cluster, and the hub does not know this cluster yet
        return CredentialFacts(
            self.held is not None and (self._is_trial or not self._is_held_refused()),
            self.own_until,
            accepted,
            self.connector.has_bootstrap_credential(),
        )


class HubSessionReconciler(Struct, frozen=True):
    """Reconciles this cluster's own ManagedCluster on the hub: acceptance decides which credential is used."""

    session: HubSession

    async def reconcile(self, key: ObjectKey) -> Outcome:
        session = self.session
        await session.select_credential()
        now, until = session.clock.now(), session.own_until
        if key.name == session.cluster_name and until is not None and until > now:
            return RetryAfter(until - now)
        return Done()
