"""Rejoins a cluster whose credential expired or was lost: a new token on the cluster, a confirmation on the hub."""

from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.admin.accept import AdmissionResult, ClusterAcceptor
from watchword.admin.bootstrap_access import BootstrapAccess
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.join import FIELD_MANAGER, bootstrap_secret, bring_bootstrap_data, read_bootstrap_data
from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.credentials.certificates.name_ownership import NameOwner, name_owner_patch, well_formed_requests
from watchword.credentials.certificates.requests import ClusterRequest, is_pending
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.errors import CredentialUnreadable
from watchword.discovery.discover import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.health.states import is_accepted
from watchword.kube.client import Client
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import RequestsCertificate
from watchword.runtime.clock import Clock


async def replace_bootstrap_secret(
    client: Client, namespace: str, access: BootstrapAccess, *, dry_run: bool = False
) -> str:
    """Replace the bootstrap credential on the managed cluster; the agent finds the new one by itself."""
    present = await read_bootstrap_data(client, namespace)
    beside: dict[str, bytes] = {}
    for driver in CATALOG.drivers:
        beside |= bring_bootstrap_data(driver, {}, access.token, present)
    secret = bootstrap_secret(namespace, access, beside)
    await client.apply(SECRETS, secret, manager=FIELD_MANAGER, force=True, dry_run=dry_run)
    return f"secret/{namespace}/{BOOTSTRAP_KUBECONFIG_SECRET}"


async def await_credential(waiter: ObjectWaiter, namespace: str, clock: Clock) -> None:
    key = ObjectKey(namespace, HUB_KUBECONFIG_SECRET)
    advice = "let the hub's administrator run `watchword rejoin --take-over`, and see the agent's log"
    await waiter.until(SECRETS, key, lambda found: validate_credential_current(found, now=clock.now()), advice=advice)


def validate_credential_current(secret: Object | None, *, now: datetime) -> str:
    try:
        held = CATALOG.read_held(decode_data(secret))
    except CredentialUnreadable as error:
        return str(error)
    if held is None:
        return "the agent has no credential yet"
    expires = held.validity.expires
    return "" if expires is None or now <= expires else "the agent's credential has expired"


class TakeOverCandidate(Struct, frozen=True):
    """The requests for a name that is taken."""

    cluster: str
    owner: str  # the identity on record, empty when there is none
    left: bool  # by `watchword unjoin`: it is accepted again with its new key
    requests: tuple[ClusterRequest, ...]


class TakeOver(Struct, frozen=True):
    """Gives the name of a cluster that is accepted, or that left, to a new key, after confirmation."""

    acceptor: ClusterAcceptor
    progress: Progress = field(default=ignore_progress)

    async def candidate(self, name: str) -> TakeOverCandidate:
        """Return what to show before confirmation; `OperationRefused` for a cluster that is denied."""
        cluster = await self.acceptor.hub_admin.cluster(name)
        annotations, accepted = annotations_of(cluster), is_accepted(cluster)
        has_key = isinstance(self.acceptor.catalog.accepted_driver(cluster), RequestsCertificate)
        left = Annotation.LEFT_ON in annotations and has_key and not accepted
        if not accepted and (not left or Annotation.DENIED_ON in annotations):
            raise OperationRefused(
                f"cluster {name} is not accepted: accept it with `watchword accept {name}`; if it was denied and its "
                "key is new, delete its ManagedCluster first, and accept it when it has asked again"
            )
        pending = [csr for csr in await self.acceptor.hub_admin.csrs_of(name) if is_pending(csr)]
        asked = tuple(request for _, request in well_formed_requests(pending) if not request.is_renewal)
        return TakeOverCandidate(name, annotations.get(Annotation.CLUSTER_UID, ""), left, asked)

    async def run(self, name: str, patience: timedelta | None) -> AdmissionResult:
        """Free the name of the identity on record and approve the new key; wait for the request if requested."""
        cluster = await self._clear_recorded_uid(name)
        acceptor = replace(self.acceptor, terms=replace(self.acceptor.terms, take_over=True))

        async def look() -> AdmissionResult:
            await self.candidate(name)  # a denial since the confirmation holds
            try:
                decision = await (acceptor.approve(cluster) if is_accepted(cluster) else acceptor.accept(name))
            except NotReady:
                decision = AdmissionResult(name)
            if decision.requests:
                await self._record_owner(name, decision.owner)
                return decision
            early = NotReady(
                f"the name {name} is free for a new key, but there is no request yet: run it again later, or use --wait"
            )
            raise PollAgain(f"waiting for a request for {name}", early)

        if patience is None:
            try:
                return await look()
            except PollAgain as early:
                raise early.then from early
        return await poll_until(look, PollOptions(patience, pause=timedelta(seconds=2)), self.progress)

    async def _record_owner(self, name: str, owner: NameOwner | None) -> None:
        """Note the new key on the cluster: requests on record are forgotten after an hour."""
        hub_admin = self.acceptor.hub_admin
        if owner is not None:
            cluster = await hub_admin.cluster(name)
            patch = name_owner_patch(cluster, owner)
            await hub_admin.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), patch, dry_run=hub_admin.dry_run)

    async def _clear_recorded_uid(self, name: str) -> Object:
        cluster = await self.acceptor.hub_admin.cluster(name)
        if not annotations_of(cluster).get(Annotation.CLUSTER_UID):
            return cluster
        patch = {"metadata": {"uid": uid_of(cluster), "annotations": {Annotation.CLUSTER_UID: None}}}
        hub_admin = self.acceptor.hub_admin
        return await hub_admin.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch, dry_run=hub_admin.dry_run)
