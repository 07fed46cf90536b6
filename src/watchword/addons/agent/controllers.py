"""The agent's controllers for add-ons."""

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

from msgspec import Struct

from watchword.addons.agent.credentials import (
    INDEX,
    AddonCredentialIndex,
    AddonCredentials,
    AddonDrivers,
    AddonRegistrationReconciler,
    AddonSecretReconciler,
    HubAccess,
    WatchNamespace,
)
from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.addon import Addon
from watchword.api.conditions import Condition
from watchword.api.credential_report import format_used
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, labels_of
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, LEASES, MANAGED_CLUSTER_ADDONS, SECRETS
from watchword.api.time import parse_rfc3339
from watchword.credentials.certificates.agent import learn_certificates_by_use
from watchword.credentials.credential_secret import CredentialKeeper, PendingCsrWatch, csr_scope
from watchword.credentials.driver import AgentContext, NewKey, Settings
from watchword.credentials.evidence import (
    CredentialClientFactory,
    EvidenceMonitor,
    SignerTiming,
    SigningKeys,
    TokenEvidence,
    learn_by_use,
    show_tokens,
)
from watchword.runtime.api_server_connection import HUB, ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.manager import Manager
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, RetryAfter, Trigger, TriggerSource
from watchword.runtime.status import StatusWriter

RENEWALS_MISSED = 5  # are tolerated, each as long as the lease says
SHORTEST_LEASE, LONGEST_LEASE = 60, 24 * 3600  # seconds


class AddonHealthReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn on the hub; triggered by it and by the lease of its name on this cluster."""

    hub: Reader
    cluster: Reader
    status: StatusWriter
    clock: Clock
    namespace: str
    watch_namespace: WatchNamespace

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:
            return Done()
        addon = Addon.read(found)
        if not addon.healthy_by_lease or addon.deleting:
            return Done()
        namespace = addon.namespace_on_cluster(self.namespace)
        await self.watch_namespace(namespace)
        lease = self.cluster.get(LEASES, ObjectKey(namespace, addon.name))
        condition, recheck_in = decide_addon_health(addon.name, lease, now=self.clock.now())
        await self.status.set_condition(MANAGED_CLUSTER_ADDONS, found, condition)
        return Done() if recheck_in is None else RetryAfter(recheck_in)


def decide_addon_health(addon: str, lease: Object | None, *, now: datetime) -> tuple[Condition, timedelta | None]:
    """Return what follows from a lease, and when that may change without a write."""
    available = ConditionType.ADDON_AVAILABLE
    renewed = parse_rfc3339(str(((lease or {}).get("spec") or {}).get("renewTime") or ""))
    if lease is None or renewed is None:
        message = f"the agent of add-on {addon} has no lease on the managed cluster"
        return Condition.unknown(available, "ManagedClusterAddOnLeaseNotFound", message), None
    said = lease["spec"].get("leaseDurationSeconds")
    seconds = min(max(said, SHORTEST_LEASE), LONGEST_LEASE) if isinstance(said, int) else SHORTEST_LEASE
    left = renewed + RENEWALS_MISSED * timedelta(seconds=seconds) - now
    if left > timedelta(0):
        used = annotations_of(lease).get(Annotation.CREDENTIAL_IN_USE, "")
        message = f"the agent of add-on {addon} renews its lease{format_used(used)}"
        return Condition.true(available, "ManagedClusterAddOnLeaseUpdated", message), left
    message = f"the agent of add-on {addon} stopped renewing its lease"
    return Condition.false(available, "ManagedClusterAddOnLeaseUpdateStopped", message), None


EVIDENCE_TIMING = SignerTiming(poll=timedelta(minutes=5))  # each look is one request of each cluster to the hub


class AddonAgentContext(Struct, frozen=True, kw_only=True):
    """What the agent's controllers for add-ons are made of."""

    cluster_name: str
    addon_namespace: str
    own_secret: ObjectKey  # of the cluster's own credential
    addon_auth: str  # how add-ons register; empty: by the default driver
    settings: Settings  # of the drivers
    session: HubAccess
    cluster: ApiServerConnection
    hub: ApiServerConnection  # refuses writes that are not in the name of this cluster
    csr_watch: PendingCsrWatch
    clock: Clock
    metrics: Metrics
    new_key: NewKey
    manager: Manager  # runs what observes whether the hub still accepts tokens
    random: Random
    connect: CredentialClientFactory | None  # shows a credential to the hub; None where it cannot be shown
    signer_timing: SignerTiming | None = None


def controllers(parts: AddonAgentContext) -> Iterable[ControllerSpec]:
    drivers = AddonDrivers(ADDON_CATALOG, parts.addon_auth)
    name, own_secret = parts.cluster_name, parts.own_secret
    credential_index = AddonCredentialIndex(parts.hub.cache, name, parts.addon_namespace)
    labeled_scope = WatchScope(parts.addon_namespace, labels=f"{Label.CLUSTER_NAME}={name},{Label.ADDON_NAME}")
    cache = parts.cluster.cache
    cache.informer(SECRETS, labeled_scope)  # one watch for all add-ons
    cache.informer(SECRETS, WatchScope.single(own_secret))
    cache.expect(LEASES)  # most clusters have no add-on that renews one
    parts.hub.cache.informer(MANAGED_CLUSTER_ADDONS, WatchScope(name))
    parts.hub.cache.informer(CERTIFICATE_SIGNING_REQUESTS, csr_scope(name))
    parts.hub.cache.index(MANAGED_CLUSTER_ADDONS, INDEX, lambda obj: map(str, credential_index.keys(obj)))
    evidence, refused = TokenEvidence(SigningKeys(parts.signer_timing or EVIDENCE_TIMING)), TriggerSource()
    credentials = _credentials(parts, credential_index, drivers, evidence)
    _add_evidence_monitor(parts, credentials, evidence, refused)
    keeper = CredentialKeeper(reader=cache, cluster=parts.cluster.client, clock=parts.clock, csr_watch=parts.csr_watch)
    reconciler = AddonSecretReconciler(
        cache,
        parts.cluster.client,
        credentials,
        keeper,
        namespace_watcher(cache, SECRETS, labeled_scope.labels),
        own_secret,
    )
    declaration = AddonRegistrationReconciler(parts.hub.cache, parts.hub.status, drivers)
    health = AddonHealthReconciler(
        parts.hub.cache, cache, parts.hub.status, parts.clock, parts.addon_namespace, namespace_watcher(cache, LEASES)
    )
    to_secrets = (
        Trigger(MANAGED_CLUSTER_ADDONS, credential_index.keys, connection_name=HUB),
        Trigger(
            CERTIFICATE_SIGNING_REQUESTS,
            lambda obj: credential_index.secret_keys_of(labels_of(obj).get(Label.ADDON_NAME, "")),
            connection_name=HUB,
        ),
        Trigger(SECRETS, lambda obj: credential_index.all_secret_keys() if ObjectKey.of(obj) == own_secret else ()),
    )
    to_addon = Trigger(LEASES, lambda obj: [ObjectKey(name, obj["metadata"]["name"])])
    yield ControllerSpec("addon-declaration", MANAGED_CLUSTER_ADDONS, declaration, connection_name=HUB)
    yield ControllerSpec(
        "addon-credential",
        SECRETS,
        reconciler,
        to_secrets,
        concerns=lambda obj: ObjectKey.of(obj) != own_secret,
        trigger_source=refused,
    )
    yield ControllerSpec("addon-health", MANAGED_CLUSTER_ADDONS, health, (to_addon,), connection_name=HUB)


def namespace_watcher(cache: Cache, resource: Resource, labels: str = "") -> WatchNamespace:

    async def watch_namespace(namespace: str) -> None:
        whole = (informer.scope for informer in cache.informers(resource) if not informer.scope.fields)
        if any(scope.covers(namespace) for scope in whole):
            return
        informer = cache.informer(resource, WatchScope(namespace, labels=labels))
        with contextlib.suppress(TimeoutError):  # what may not be listed can still be written
            async with asyncio.timeout(10):
                await informer.sync()

    return watch_namespace


def _credentials(
    parts: AddonAgentContext, credential_index: AddonCredentialIndex, drivers: AddonDrivers, evidence: TokenEvidence
) -> AddonCredentials:
    context = AgentContext(
        hub=parts.hub.client,
        reader=parts.hub.cache,
        clock=parts.clock,
        new_key=parts.new_key,
        settings=parts.settings,
        evidence=evidence,
    )
    return AddonCredentials(
        credential_index,
        parts.cluster.cache,
        parts.hub.status,
        parts.cluster.events,
        drivers,
        {name: driver.agent(context) for name, driver in ADDON_CATALOG.by_name.items()},
        parts.session,
        parts.metrics.credentials,
        parts.clock,
    )


def _add_evidence_monitor(
    parts: AddonAgentContext, credentials: AddonCredentials, evidence: TokenEvidence, trigger: TriggerSource
) -> None:
    """Send one token and one certificate to the hub regularly, to notice another signing key or authority."""
    if parts.connect is None:
        return
    learn_tokens = learn_by_use(evidence, credentials.held_tokens, show_tokens(parts.connect))
    learn_certificates = learn_certificates_by_use(evidence, credentials.held_certificates, parts.connect)

    async def learn(now: datetime) -> None:
        await learn_tokens(now)
        await learn_certificates(now)

    concerned = credentials.credential_index.all_secret_keys
    monitor = EvidenceMonitor(evidence, parts.clock, parts.random, learn, concerned, trigger)
    parts.manager.add_job("credential evidence", monitor.run)
