"""Runs the agent of the add-on: one connection to the hub, one to its own cluster."""

import asyncio
import contextlib
from random import Random, SystemRandom

import structlog
from msgspec import Struct, field

from watchword.accounts.agent.account import AccountReconciler, ServiceAccounts
from watchword.accounts.agent.token_secrets import HubSecrets, TokenSecrets
from watchword.accounts.metrics import WHERE
from watchword.addons.lease import AddonLease, UsedCredential, own_account
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, SELECTOR
from watchword.api.meta import ObjectKey, Resource
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.credentials.evidence import (
    EvidenceMonitor,
    SignerTiming,
    SigningKeys,
    TokenClientFactory,
    TokenEvidence,
    connect_with_token,
    learn_published_keys,
)
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Forbidden, KubeError, NotFound
from watchword.kube.request_sender import decode
from watchword.kube.watch import WatchOptions
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.event_loop import run_until_stopped, running
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import TokenRefreshMetrics
from watchword.runtime.reconcile import ControllerSpec, Trigger, TriggerSource
from watchword.runtime.work_queue import Quarantine

CLUSTER = "cluster"  # the name of the connection to the agent's own cluster
KINDS_EVERY = 60.0  # seconds between two questions whether the hub serves the other group of accounts, too
WORKERS = 16


class AccountsAgentTiming(Struct, frozen=True):
    """Seconds between two renewals of the lease and between two looks at the authority's file, and more."""

    lease: float = 20.0
    authority: float = 5.0
    signer: SignerTiming = field(default_factory=SignerTiming)
    follow: WatchOptions | None = None
    quarantine: Quarantine = field(default_factory=Quarantine)
    served: Backoff = Backoff(first=2.0, limit=300.0)  # between two questions whether the hub serves accounts


class AccountsAgentOptions(Struct, frozen=True):
    """Which cluster the agent serves, and how its API server is reached by users of the tokens."""

    cluster: str
    namespace: str
    endpoint: Endpoint
    identity: str = ADDON_NAME
    health: tuple[str, int] | None = None
    connect: TokenClientFactory | None = None  # how a token is shown to the cluster; None: at the endpoint
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)
    timing: AccountsAgentTiming = field(default_factory=AccountsAgentTiming)


async def run_accounts_agent(
    hub: Client, local: Client, options: AccountsAgentOptions, *, stop: asyncio.Event | None = None
) -> None:
    """Keep the cluster's accounts until asked to stop; raises what the manager raises."""
    stop = stop or asyncio.Event()
    found: list[tuple[Resource, ...]] = []

    async def find() -> None:
        found.append(await find_served_kinds(hub, options.cluster, options.timing.served, options.random))

    while not stop.is_set() and await run_until_stopped(stop, find()):
        ended = asyncio.Event()
        async with running(_follow_served_kinds(hub, options.cluster, found[-1], stop, ended), "served groups"):
            await _keep_accounts(hub, local, options, kinds=found[-1], stop=ended)


async def _keep_accounts(
    hub: Client, local: Client, options: AccountsAgentOptions, *, kinds: tuple[Resource, ...], stop: asyncio.Event
) -> None:
    timing, owners = options.timing, await own_account(local)
    manager = Manager(
        ManagerOptions(
            f"watchword.dev/{ADDON_NAME}",
            options.identity,
            health=options.health,
            follow=timing.follow,
            quarantine=timing.quarantine,
        ),
        clock=options.clock,
        random=options.random,
    )
    at_hub, at_cluster = manager.connect(hub), manager.connect(local, name=CLUSTER)
    for kind in kinds:
        at_hub.cache.informer(kind, WatchScope(namespace=options.cluster))
    at_cluster.cache.informer(SERVICE_ACCOUNTS, WatchScope(namespace=options.namespace, labels=SELECTOR))
    for owner in owners:
        own = WatchScope.single(ObjectKey(options.namespace, owner["name"]))
        at_cluster.cache.informer(SERVICE_ACCOUNTS, own)  # created again, it has another UID: the owner of what is made
    evidence = TokenEvidence(SigningKeys(timing.signer))
    connect = options.connect or connect_with_token(options.endpoint)
    secrets = TokenSecrets(HubSecrets(at_hub.client), options.endpoint, connect, evidence)
    accounts = ServiceAccounts(at_cluster.cache, at_cluster.client, options.namespace, owners)
    source = TriggerSource()
    metrics = TokenRefreshMetrics(manager.metrics.registry, "account", WHERE)
    reconciler = AccountReconciler(at_hub.cache, at_hub.status, accounts, secrets, options.clock, kinds, metrics)
    triggers = (
        *(Trigger(kind, lambda obj: [ObjectKey.of(obj)]) for kind in kinds[1:]),
        Trigger(SERVICE_ACCOUNTS, lambda obj: [ObjectKey(options.cluster, obj["metadata"]["name"])], CLUSTER),
    )
    name = "managed-service-account"
    manager.add(ControllerSpec(name, kinds[0], reconciler, triggers, workers=WORKERS, trigger_source=source))
    manager.add_job("authority", lambda: _follow_authority(timing.authority, secrets, at_hub.cache, kinds, source))
    learn = learn_published_keys(evidence.keys, local)  # one request for all; every account has the right
    monitor = EvidenceMonitor(evidence, options.clock, options.random, learn, secrets.known_accounts, source)
    manager.add_job("signing keys", monitor.run)
    manager.add_job("lease", lambda: _renew_lease(at_cluster, UsedCredential(at_hub.client, options.clock), options))
    await manager.run(stop)


async def find_served_kinds(hub: Client, cluster: str, backoff: Backoff, random: Random) -> tuple[Resource, ...]:
    """Return in which groups the hub serves accounts to this agent, waiting until it does in one.

    A manager of Open Cluster Management grants one group only, and rights may follow the credential by a moment.
    """
    log = structlog.get_logger("watchword.accounts").bind(cluster=cluster)
    failures = 0
    while True:
        try:
            refusals = [await _find_refusal(hub, kind, cluster) for kind in ACCOUNT_KINDS]
        except KubeError as error:  # says nothing about the groups: a server that starts a kind refuses for a moment
            refusals = [str(error)] * len(ACCOUNT_KINDS)
        served = tuple(kind for kind, refusal in zip(ACCOUNT_KINDS, refusals, strict=True) if not refusal)
        if served:
            return served
        log.warning("the hub serves no accounts to this agent yet", error=refusals[0])
        failures += 1
        await asyncio.sleep(backoff.delay(failures, random))


async def _follow_served_kinds(
    hub: Client, cluster: str, kinds: tuple[Resource, ...], stop: asyncio.Event, ended: asyncio.Event
) -> None:
    """End the run when asked to stop, and when the hub serves one more group: another manager serves it now."""
    missing = [kind for kind in ACCOUNT_KINDS if kind not in kinds]
    if not missing:
        await stop.wait()
    while await run_until_stopped(stop, asyncio.sleep(KINDS_EVERY)):
        with contextlib.suppress(KubeError):
            if not all([await _find_refusal(hub, kind, cluster) for kind in missing]):
                break
    ended.set()


async def _find_refusal(hub: Client, kind: Resource, cluster: str) -> str:
    """Return why the hub does not let this agent read a kind; empty when it does."""
    try:
        decode(await hub.request("GET", kind.path(namespace=cluster), query={"limit": "1"}))
    except (Forbidden, NotFound) as refusal:
        return str(refusal)
    return ""


async def _follow_authority(
    every: float, secrets: TokenSecrets, hub: Cache, kinds: tuple[Resource, ...], source: TriggerSource
) -> None:
    """Reconcile every account when the cluster's CA has changed: no event reports a changed file."""
    known = secrets.ca
    while True:
        await asyncio.sleep(every)
        current = secrets.ca
        if current != known:
            known = current
            source.enqueue_all(ObjectKey.of(obj) for kind in kinds for obj in hub.list(kind))


async def _renew_lease(cluster: ApiServerConnection, used: UsedCredential, options: AccountsAgentOptions) -> None:
    """Show on the cluster that the agent is alive; a failure is logged and tried again."""
    every = options.timing.lease
    lease = AddonLease(cluster.client, ObjectKey(options.namespace, ADDON_NAME), options.clock, int(3 * every))
    log = structlog.get_logger("watchword.accounts").bind(cluster=options.cluster)
    while True:
        try:
            await lease.renew(credential_id=await used.current())
        except KubeError as error:
            log.warning("lease not renewed", error=str(error))
        await asyncio.sleep(every)
