"""The controllers of an agent: the one that keeps its credential for the hub alive, and all of them as data."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from msgspec import Struct

from watchword.api.conditions import without_messages
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_CLAIMS, MANAGED_CLUSTERS, NODES, SECRETS
from watchword.credentials.credential_secret import (
    AGENT_NAME,
    CLUSTER_NAME,
    CredentialKeeper,
    CredentialSpec,
    SecretExtras,
    csr_scope,
)
from watchword.credentials.driver import (
    ENDPOINT_CONFIG,
    KUBECONFIG,
    AgentDriver,
    CredentialKind,
    NewCredential,
    ObtainResult,
    Pending,
    SecretData,
    ValidCredential,
    WantedCredential,
)
from watchword.kube.client import Client
from watchword.registration.agent import cluster_status
from watchword.registration.agent.hub_session import HubSession, HubSessionReconciler
from watchword.registration.agent.options import AgentIdentity, AgentOptions
from watchword.registration.driver import endpoint_data_of
from watchword.runtime.api_server_connection import HUB, ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.metrics import CredentialMetrics, RemainingLife, remaining_life
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, Trigger

KIND = "cluster"


@dataclass
class CredentialMetricsObserver:
    """A `CredentialObserver` that counts each result."""

    metrics: CredentialMetrics
    cluster: str
    clock: Clock
    began: datetime = field(init=False)
    held: ValidCredential | NewCredential | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.began = self.clock.now()

    async def on_answer(self, answer: ObtainResult, _data: SecretData) -> None:
        now, before = self.clock.now(), self.held
        if isinstance(answer, Pending):
            if answer.failed and answer.message != self.refused:  # the same refusal is seen at every look
                self.metrics.rotation_failed(KIND, answer.reason)
                self.refused = answer.message
            return
        if isinstance(answer, NewCredential) and before is None:
            self.metrics.join.observe((now - self.began).total_seconds())
        elif isinstance(answer, NewCredential) and before is not None:
            self.metrics.rotated(KIND, remaining_ratio=remaining_validity_ratio(before, now))
        self.held, self.refused = answer, ""
        if answer.expires_at is not None:
            self.metrics.watch_expiry(KIND, self.cluster, self._remaining)
        else:
            self.metrics.forget(KIND, self.cluster)

    def _remaining(self) -> RemainingLife:
        held = self.held
        validity = CredentialValidity() if held is None else CredentialValidity(held.issued_at, held.expires_at)
        return remaining_life([validity], now=self.clock.now())


def remaining_validity_ratio(held: ValidCredential | NewCredential, now: datetime) -> float:
    """Return which part of a validity is left; all of it where it does not expire."""
    if held.expires_at is None:
        return 1.0
    if held.issued_at is None or held.expires_at <= held.issued_at:
        return 0.0
    return min(max((held.expires_at - now) / (held.expires_at - held.issued_at), 0.0), 1.0)


class HubCredentialReconciler(Struct, frozen=True, kw_only=True):
    """Reconciles the Secret of the cluster's credential; triggered by it, the hub's decisions and the session."""

    identity: AgentIdentity
    driver: AgentDriver
    keeper: CredentialKeeper
    session: HubSession
    hub: Reader
    metrics: CredentialMetricsObserver
    obsolete_keys: frozenset[str] = frozenset()  # of the Secret: those of drivers that served before

    async def reconcile(self, key: ObjectKey) -> Outcome:
        if key != self.identity.secret_key:
            return Done()
        data: dict[str, bytes] = {
            KUBECONFIG: self.session.kubeconfigs.for_user(self.driver.user_entry()),
            CLUSTER_NAME: self.identity.cluster.encode(),
            AGENT_NAME: self.identity.agent.encode(),
        }
        endpoint = endpoint_data_of(self.session.connector)
        extras = SecretExtras(data, endpoint, self.obsolete_keys | {ENDPOINT_CONFIG} - endpoint.keys())
        return await self.keeper.advance(key, CredentialSpec(self.wanted(), self.driver, extras), self.on_answer)

    async def on_answer(self, answer: ObtainResult, data: SecretData) -> None:
        await self.metrics.on_answer(answer, data)
        await self.session.update_credential(answer, data)

    def wanted(self) -> WantedCredential:
        found = self.hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(self.identity.cluster))
        asked = annotations_of(found or {}).get(Annotation.ROTATION_REQUEST, "")
        return WantedCredential(
            self.identity.cluster,
            self.identity.subject,
            requester=self.session.requester,
            refused=frozenset({self.session.refused_id}),
            # The hub decides about one key of a joining cluster, not about a second one.
            rotation=asked if self.session.uses_own_credential else "",
        )


CLAIMS_CHECK_INTERVAL = timedelta(minutes=5)
CLAIMS_SYNC_SECONDS = 10.0


class RegistrationParts(Struct, frozen=True, kw_only=True):
    """What the controllers of every agent are made of."""

    options: AgentOptions
    identity: AgentIdentity
    cluster: ApiServerConnection
    hub: ApiServerConnection
    cluster_client: Client  # reads without leadership
    session: HubSession
    credential: HubCredentialReconciler
    credential_kind: CredentialKind
    clock: Clock
    random: Random


def register_informers(cluster: ApiServerConnection, hub: ApiServerConnection, identity: AgentIdentity) -> None:
    cluster.cache.informer(SECRETS, WatchScope.single(identity.secret_key))
    cluster.cache.informer(NODES, project=_without_images)
    cluster.cache.expect(CLUSTER_CLAIMS)  # see follow_claims
    hub.cache.informer(MANAGED_CLUSTERS, WatchScope.single(ObjectKey.cluster(identity.cluster)))
    hub.cache.informer(CERTIFICATE_SIGNING_REQUESTS, csr_scope(identity.cluster))  # shared: see PendingCsrWatch


async def follow_claims(cluster: ApiServerConnection) -> None:
    """Watch ClusterClaims once the cluster serves them: many clusters never do."""
    while True:
        informer = cluster.cache.informer(CLUSTER_CLAIMS)
        try:
            async with asyncio.timeout(CLAIMS_SYNC_SECONDS):
                await informer.sync()
        except TimeoutError:
            cluster.cache.drop(informer)
            await asyncio.sleep(CLAIMS_CHECK_INTERVAL.total_seconds())
        else:
            await asyncio.Event().wait()


def registration_controllers(parts: RegistrationParts) -> Iterable[ControllerSpec]:
    hub, session, secret = parts.hub, parts.session, parts.identity.secret_key
    own = [ObjectKey.cluster(parts.identity.cluster)]
    lease = cluster_status.LeaseRenewalReconciler(hub.cache, hub.client, parts.clock, parts.random, session.connection)
    health = cluster_status.ApiServerHealthCheck(parts.cluster_client, parts.cluster.cache)
    status = cluster_status.ClusterStatusReconciler(
        hub, parts.cluster.cache, health, parts.options.claims, session, parts.credential_kind, lease
    )

    def to_own_secret(csr: Object) -> list[ObjectKey]:
        return [] if Label.ADDON_NAME in labels_of(csr) else [secret]

    to_secret = (
        Trigger(MANAGED_CLUSTERS, lambda _: [secret], connection_name=HUB, facts=without_messages),
        Trigger(CERTIFICATE_SIGNING_REQUESTS, to_own_secret, connection_name=HUB),
    )
    to_cluster = tuple(Trigger(resource, lambda _: own) for resource in (NODES, CLUSTER_CLAIMS))
    changed = session.changed
    yield ControllerSpec(
        "hub-credential", SECRETS, parts.credential, to_secret, workers=1, trigger_source=changed.for_key(secret)
    )
    yield ControllerSpec("hub-session", MANAGED_CLUSTERS, HubSessionReconciler(session), workers=1, connection_name=HUB)
    yield ControllerSpec(
        "cluster-lease",
        MANAGED_CLUSTERS,
        lease,
        workers=1,
        connection_name=HUB,
        trigger_source=changed,
        facts=without_messages,
    )
    yield ControllerSpec(
        "cluster-status", MANAGED_CLUSTERS, status, to_cluster, workers=1, connection_name=HUB, trigger_source=changed
    )


def _without_images(node: Object) -> Object:
    """Keep only the fields that are reported: a node's list of images is longer than all the rest."""
    status = node.get("status") or {}
    kept = {name: status[name] for name in ("capacity", "allocatable") if name in status}
    return {**node, "status": kept}
