"""Registers this cluster with its hub, and takes it out again with the cluster's own credential."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.limits import DEFAULT_LEASE_SECONDS
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import AGENT_ANNOTATION_PREFIX, Annotation, Label
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, Unreachable
from watchword.registration.agent.hub_session import ActiveCredential, HubSession
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.errors import FieldContested


class NameTaken(Exception):
    """The hub knows another cluster, or another driver, under this name; the message contains the next step."""


class RegistrationRequest(Struct, frozen=True):
    """What this cluster registers with on a hub."""

    name: str
    uid: str  # of this cluster's kube-system namespace: the same on every hub it joins
    client_configs: Sequence[Object] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claim: Mapping[str, str | None] = field(default_factory=dict)  # of the driver; None: the claim of another driver


def cluster_manifest(registration: RegistrationRequest) -> Object:
    """Return the ManagedCluster to create. It never accepts itself, and carries only the agent's own annotations."""
    annotations = {
        name: value
        for name, value in registration.annotations.items()
        if name.startswith(AGENT_ANNOTATION_PREFIX) and name not in registration.claim
    }
    annotations |= {name: value for name, value in registration.claim.items() if value is not None}
    annotations[Annotation.CLUSTER_UID] = registration.uid
    metadata: Object = {"annotations": annotations}
    labels = {name: value for name, value in registration.labels.items() if name != Label.CLUSTER_NAME}
    if labels:
        metadata["labels"] = labels
    spec: Object = {"hubAcceptsClient": False, "leaseDurationSeconds": DEFAULT_LEASE_SECONDS}
    if registration.client_configs:
        spec["managedClusterClientConfigs"] = list(registration.client_configs)
    return MANAGED_CLUSTERS.manifest(ObjectKey.cluster(registration.name), metadata=metadata, spec=spec)


async def register_cluster(hub: Client, registration: RegistrationRequest) -> Object:
    """Create the ManagedCluster, or recognise it as one's own; raise `NameTaken` when it is another's."""
    try:
        return await hub.create(MANAGED_CLUSTERS, cluster_manifest(registration))
    except AlreadyExists:
        found = await hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(registration.name))
    objection = validate_cluster_ownership(Cluster.read(found), registration)
    if objection:
        raise NameTaken(objection)
    return found


async def correct_driver_claim(hub: Client, found: Object, registration: RegistrationRequest) -> None:
    """Let the ManagedCluster claim the driver of this agent; `NameTaken` when the hub does not let it."""
    present = annotations_of(found)
    changed = {name: value for name, value in registration.claim.items() if present.get(name) != value}
    if not changed:
        return
    merged = {name: value for name, value in {**present, **registration.claim}.items() if value is not None}
    try:
        await hub.update(MANAGED_CLUSTERS, {**found, "metadata": {**found["metadata"], "annotations": merged}})
    except Forbidden as refusal:  # before it is accepted, a cluster may not change what it registered with
        rows = " ".join(f"{name}-" if value is None else f"{name}={value}" for name, value in changed.items())
        raise NameTaken(
            f"the ManagedCluster names another driver, or another identity, than this agent has: correct it on the "
            f"hub with `kubectl annotate managedcluster {registration.name} --overwrite {rows}`"
        ) from refusal


REGISTRATION_BACKOFF = Backoff(first=1.0, limit=300.0)
CLUSTER_CHECK_INTERVAL = timedelta(minutes=10)  # changes of the cluster and of the session trigger a check at once


async def keep_registered(
    hub: ApiServerConnection, session: HubSession, request: RegistrationRequest, check: timedelta
) -> None:
    """Create the ManagedCluster while the hub has none, and let it claim the configured driver."""
    log = structlog.get_logger("watchword.registration.agent").bind(cluster=request.name)
    report, changed, failures, is_registered = session.connection.report, follow_cluster(hub, session), 0, False
    while True:
        found = hub.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(request.name))
        is_joining = session.active_credential is not ActiveCredential.OWN
        try:
            if is_joining and (found is None or not is_registered):
                found, is_registered = await register_cluster(hub.client, request), True
            if found is not None:
                await correct_driver_claim(hub.client, found, request)
            failures = 0
            report.registered()
        except (KubeError, NameTaken, FieldContested) as error:
            failures += 1
            if not isinstance(error, Unreachable):
                report.registered(str(error))
            contested = error.retry_in if isinstance(error, FieldContested) else 0.0
            delay = max(REGISTRATION_BACKOFF.delay(failures, session.random), contested)
            log.warning("not registered with the hub yet", error=str(error), retry_in=round(delay, 1))
            await asyncio.sleep(delay)
        else:
            await wait_changed(changed, check)


def follow_cluster(hub: ApiServerConnection, session: HubSession) -> asyncio.Event:
    """Return what is set when the ManagedCluster or the session with the hub changes."""
    changed = asyncio.Event()
    hub.cache.add_handler(MANAGED_CLUSTERS, lambda _: changed.set())
    session.changed.connect(lambda _: changed.set())
    return changed


async def wait_changed(changed: asyncio.Event, at_most: timedelta) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(at_most.total_seconds()):
            await changed.wait()
    changed.clear()


def validate_cluster_ownership(found: Cluster, registration: RegistrationRequest) -> str | None:
    """Return why the cluster on the hub is not this one, or None when it is, or when the hub cannot tell.

    A hub's administrator may create the cluster beforehand; it carries no identity then, and the first to come owns it.
    """
    if found.claimed_uid in ("", registration.uid):
        return None
    return (
        f"the hub already knows another cluster named {found.name} (its identity is {found.claimed_uid}, "
        f"this cluster's is {registration.uid}): join under another name"
    )


ATTEMPTS = 5
REQUEST_LIFE = timedelta(minutes=2)  # longer than `unjoin` waits, and clocks differ
BACKOFF = Backoff(first=5.0, limit=300.0)


async def withdraw_acceptance(hub: Client, cluster: str, clock: Clock) -> bool:
    """Set `hubAcceptsClient` to false as the cluster itself; return whether the hub knows the cluster at all.

    The record of it, written with the same request, tells the hub this from a denial.
    """
    attempts = 0
    while True:
        found = await hub.find(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
        if found is None:
            return False
        if not Cluster.read(found).accepted:
            return True
        notes = {**annotations_of(found), Annotation.LEFT_ON: rfc3339(clock.now())}
        left = {
            **found,
            "metadata": {**found["metadata"], "annotations": notes},
            "spec": {**found["spec"], "hubAcceptsClient": False},
        }
        try:
            await hub.update(MANAGED_CLUSTERS, left)  # agents may update, not patch, as in Open Cluster Management
        except Conflict:
            attempts += 1
            if attempts == ATTEMPTS:
                raise
        else:
            return True


def is_current_request(asked: str, *, now: datetime) -> bool:
    made = parse_rfc3339(asked) if asked else None
    return made is not None and abs(now - made) <= REQUEST_LIFE


async def leave_when_asked(session: HubSession, hub: Client, cluster: Client, own: Cache, secret: ObjectKey) -> None:
    """Leave once `unjoin` asks for it by an annotation of the Secret, and note there that it is done.

    A person's shell may have no way to the hub, or not the identity that a plugin of the credential uses.
    `unjoin` waits for an answer for seconds: a request that is older was left by one that was interrupted.
    """
    changed, failures, ignored, log = asyncio.Event(), 0, "", structlog.get_logger("watchword.registration.agent")
    own.add_handler(SECRETS, lambda _: changed.set())
    while True:
        found = own.get(SECRETS, secret)
        asked = annotations_of(found or {}).get(Annotation.LEAVE_REQUEST, "")
        is_answered = annotations_of(found or {}).get(Annotation.LEFT_ON) == asked
        is_current = is_current_request(asked, now=session.clock.now())
        if found is None or is_answered or not is_current:
            if asked and not is_answered and asked != ignored:
                ignored = asked
                log.warning("a request to leave the hub is ignored: run `watchword unjoin` again", asked=asked)
            failures = 0
            await changed.wait()
            changed.clear()
            continue
        try:
            if session.uses_own_credential:
                await withdraw_acceptance(hub, session.cluster_name, session.clock)
                done = {"metadata": {"annotations": {Annotation.LEFT_ON: asked}}}
                await cluster.patch(SECRETS, secret, with_preconditions(found, done))
                log.info("this cluster has left its hub, as `watchword unjoin` asked", asked=asked)
        except KubeError as error:
            log.warning("the hub is not told yet that this cluster leaves", error=str(error))
        failures += 1
        await asyncio.sleep(BACKOFF.delay(failures, session.random))
