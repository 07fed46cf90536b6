"""The controllers of an agent as data: those of every agent, and those of an accepted cluster's agent."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from random import Random

from msgspec import Struct

from watchword.api.conditions import without_messages
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_CLAIMS, MANAGED_CLUSTERS, NODES, SECRETS
from watchword.credentials.credential_secret import csr_scope
from watchword.credentials.driver import CredentialKind
from watchword.kube.client import Client
from watchword.registration.agent import cluster_status
from watchword.registration.agent.hub_credential import HubCredentialReconciler
from watchword.registration.agent.hub_session import HubSession, HubSessionReconciler
from watchword.registration.agent.options import AgentIdentity, AgentOptions
from watchword.runtime.api_server_connection import HUB, ApiServerConnection
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Trigger

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
    status = cluster_status.ClusterStatusReconciler(
        hub.cache,
        parts.cluster.cache,
        hub.status,
        cluster_status.ApiServerHealthCheck(parts.cluster_client, parts.cluster.cache),
        parts.options.claims,
        session,
        parts.credential_kind,
        lease,
    )
    to_secret = (
        Trigger(MANAGED_CLUSTERS, lambda _: [secret], connection_name=HUB, facts=without_messages),
        Trigger(
            CERTIFICATE_SIGNING_REQUESTS,
            lambda csr: () if Label.ADDON_NAME in labels_of(csr) else [secret],
            connection_name=HUB,
        ),
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
