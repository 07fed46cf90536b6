"""Takes this cluster out of its hub: gives its acceptance back, with the cluster's own credential."""

import asyncio
from datetime import datetime, timedelta

import structlog

from watchword.api.cluster import Cluster
from watchword.api.meta import ObjectKey, annotations_of
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, KubeError
from watchword.registration.agent.hub_session import HubSession
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions

ATTEMPTS = 5
REQUEST_LIFE = timedelta(minutes=2)  # longer than `unjoin` waits, and clocks differ
BACKOFF = Backoff(first=5.0, limit=300.0)


async def withdraw_acceptance(hub: Client, cluster: str, clock: Clock) -> bool:
    """Set `hubAcceptsClient` to false as the cluster itself; return whether the hub knows the cluster at all.

    The record of it, written with the same request, tells the hub this from a denial.
    """
    for attempt in range(ATTEMPTS):
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
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("returned or raised above")


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
