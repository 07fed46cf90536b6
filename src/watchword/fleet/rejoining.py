"""Brings a cluster back whose credential expired or was lost: a new token on its side, a person's word on the hub's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from watchword.agent.secret_data import decode_data
from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.discovery.waiting import NotYet, Patience, Progress, in_silence, look_until
from watchword.drivers.csr.agent import CERTIFICATE
from watchword.drivers.csr.hub import is_pending
from watchword.drivers.csr.judge import ClusterRequest
from watchword.fleet.accepting import Doorkeeper
from watchword.fleet.bootstrap_access import BootstrapAccess
from watchword.fleet.errors import Refused, TooLate
from watchword.fleet.hub_desk import Decision
from watchword.fleet.joining import FIELD_MANAGER, bootstrap_secret
from watchword.fleet.watching import Watcher
from watchword.hub.first_request import well_formed
from watchword.kube.client import Client
from watchword.pki.certificates import parse_certificate
from watchword.pki.errors import PkiError
from watchword.runtime.clock import Clock


async def hand_in(client: Client, namespace: str, access: BootstrapAccess, *, dry_run: bool = False) -> str:
    """Replace the bootstrap credential on the managed cluster; the agent finds the new one by itself."""
    secret = bootstrap_secret(namespace, access)
    await client.apply(SECRETS, secret, manager=FIELD_MANAGER, force=True, dry_run=dry_run)
    return f"secret/{namespace}/{BOOTSTRAP_KUBECONFIG_SECRET}"


async def await_credential(watcher: Watcher, namespace: str, clock: Clock) -> None:
    """Wait until the agent holds a valid certificate; `TooLate` otherwise."""
    key = ObjectKey(namespace, HUB_KUBECONFIG_SECRET)
    advice = "let the hub's administrator run `watchword rejoin --take-over`, and see the agent's log"
    await watcher.until(SECRETS, key, lambda found: judge_credential(found, now=clock.now()), advice=advice)


def judge_credential(secret: Object | None, *, now: datetime) -> str:
    """Say why the credential in a Secret is no good; empty when it is good."""
    try:
        certificate = parse_certificate(decode_data(secret).get(CERTIFICATE, b""))
    except PkiError:
        return "the agent has no certificate yet"
    return "" if certificate.is_current(now) else "the agent's certificate has expired"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who asks for a name that is taken."""

    cluster: str
    owner: str  # the identity on record, empty when there is none
    requests: tuple[ClusterRequest, ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Lets a new key have the name of a cluster that has joined before; a person has confirmed it."""

    door: Doorkeeper
    progress: Progress = field(default=in_silence)

    async def candidate(self, name: str) -> Candidate:
        """Return what a person should see before they decide; `Refused` for a cluster that is denied."""
        cluster = await self.door.desk.cluster(name)
        if (cluster.get("spec") or {}).get("hubAcceptsClient") is not True:
            raise Refused(f"cluster {name} is not accepted: let it in with `watchword accept --clusters {name}`")
        pending = [csr for csr in await self.door.desk.requests_of(name) if is_pending(csr)]
        asked = tuple(request for _, request in well_formed(pending) if not request.is_renewal)
        return Candidate(name, annotations_of(cluster).get(Annotation.CLUSTER_UID, ""), asked)

    async def run(self, name: str, patience: timedelta | None) -> Decision:
        """Free the name of the identity on record and approve the new key; wait for the request when asked to."""
        cluster = await self._free(name)
        door = replace(self.door, terms=replace(self.door.terms, take_over=True))

        async def look() -> Decision:
            try:
                decision = await door.approve(cluster)
            except TooLate:
                decision = Decision(name)
            if decision.requests:
                return decision
            early = TooLate(
                f"the name {name} is free for a new key, but nobody has asked yet: run it again then, or use --wait"
            )
            raise NotYet(f"waiting for a request for {name}", early)

        if patience is None:
            try:
                return await look()
            except NotYet as early:
                raise early.then from early
        return await look_until(look, Patience(patience, pause=timedelta(seconds=2)), self.progress)

    async def _free(self, name: str) -> Object:
        cluster = await self.door.desk.cluster(name)
        if not annotations_of(cluster).get(Annotation.CLUSTER_UID):
            return cluster
        patch = {"metadata": {"uid": uid_of(cluster), "annotations": {Annotation.CLUSTER_UID: None}}}
        desk = self.door.desk
        return await desk.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch, dry_run=desk.dry_run)
