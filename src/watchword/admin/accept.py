"""Accepts and denies clusters for the hub's administrator, after checking their requests."""

from contextlib import suppress
from datetime import timedelta

from msgspec import Struct, field

from watchword.admin.errors import NotFoundOnHub, NotReady, OperationRefused
from watchword.admin.wait import ObjectWaiter
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, uid_of
from watchword.api.names import HUB_NAMESPACE, NAME_CONFLICT, Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_MANAGERS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339
from watchword.credentials.certificates import name_ownership
from watchword.credentials.certificates.name_ownership import NameOwner, name_owner_patch
from watchword.credentials.certificates.requests import APPROVED, is_pending, read_cluster_request, with_decision
from watchword.discovery.discover import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.discovery.tokens import record_token_use, token_secret_key_of
from watchword.health.formatting import format_key
from watchword.health.hub_reader import require_hub
from watchword.health.processes import find_deployment_problem
from watchword.health.states import is_accepted
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, Forbidden
from watchword.operator import cluster_manager
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import (
    AcceptanceContext,
    ClusterDriver,
    DescribesClaim,
    PreparesAcceptance,
    RequestsCertificate,
)
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions

MEMBER_HINT = "run `watchword doctor` with its kubeconfig, which tells whether its agent reaches this hub"
HUB_RUNNING_HINT = "is `watchword hub` running for this hub?"


DEPARTURE_ANNOTATIONS = (Annotation.DENIED_ON, Annotation.LEFT_ON)


class AdmissionResult(Struct, frozen=True):
    """What was done about one cluster, or about a single request."""

    cluster: str = ""
    requests: tuple[str, ...] = ()  # approved or denied now
    key: str = ""  # the thumbprint of the key that was approved
    changed: bool = False  # whether the ManagedCluster was changed
    owner: NameOwner | None = None  # the owner that got the name


class HubAdmin(Struct, frozen=True):
    """Reads and writes on a hub; a dry run sends requests and changes nothing."""

    client: Client
    clock: Clock
    dry_run: bool = False

    async def cluster(self, name: str) -> Object:
        """Return a ManagedCluster; `NotFoundOnHub` when there is none yet, `OperationRefused` while it is deleted."""
        found = await self.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if found is None:
            await require_hub(self.client)
            raise NotFoundOnHub(f"no cluster {name} has asked to join: check the name, or {MEMBER_HINT}")
        if is_deleting(found):
            raise OperationRefused(f"cluster {name} is being deleted: wait until it is gone")
        return found

    async def csrs_of(self, cluster: str) -> list[Object]:
        found = await self.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={cluster}")
        return found.items

    async def accept(self, cluster: Object, owner: NameOwner | None = None, driver: str = "") -> bool:
        """Accept a cluster under the key of its owner, for one driver alone; return whether anything changed.

        Acceptance holds for the revision that was looked at, and ends an earlier denial.
        """
        if is_accepted(cluster):
            return False
        metadata = name_owner_patch(cluster, owner)["metadata"] if owner is not None else {}
        annotations = {**metadata.get("annotations", {}), **dict.fromkeys(DEPARTURE_ANNOTATIONS)}
        annotations |= {Annotation.ACCEPTED_DRIVER: driver} if driver else {}
        patch = {"spec": {"hubAcceptsClient": True}, "metadata": {**metadata, "annotations": annotations}}
        await self._patch(cluster, with_preconditions(cluster, patch))
        return True

    async def deny(self, cluster: Object) -> bool:
        """Deny a cluster in whatever state it is; return whether that changed it."""
        if not is_accepted(cluster) and Annotation.DENIED_ON in annotations_of(cluster):
            return False
        annotations = {Annotation.DENIED_ON: rfc3339(self.clock.now())}
        metadata = {"uid": uid_of(cluster), "annotations": annotations}
        await self._patch(cluster, {"spec": {"hubAcceptsClient": False}, "metadata": metadata})
        return True

    async def _patch(self, cluster: Object, patch: Object) -> None:
        await self.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), patch, dry_run=self.dry_run)

    async def record_decision(self, csr: Object, verdict: str, message: str) -> None:
        """Write `Approved` or `Denied` onto a request, exactly as it was read."""
        reason = "ApprovedByAdministrator" if verdict == APPROVED else "DeniedByAdministrator"
        decided = with_decision(csr, verdict, reason, message, now=self.clock.now())
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, decided, subresource="approval", dry_run=self.dry_run)


ATTEMPTS = 5  # the hub's controllers write to a new cluster at the same time


class ClusterAcceptor(Struct, frozen=True):
    """Accepts clusters under the terms that the administrator named; nothing is written unless everything may be."""

    hub_admin: HubAdmin
    terms: name_ownership.ApprovalTerms
    progress: Progress = field(default=ignore_progress)
    catalog: Catalog = CATALOG

    async def accept(self, name: str) -> AdmissionResult:
        """Approve what the cluster requested and accept it; raise `OperationRefused`, or `NotReady` when early."""
        approved = AdmissionResult(name)
        for attempt in range(ATTEMPTS):
            cluster = await self.hub_admin.cluster(name)
            try:
                # A cluster that needs no certificate request is let in by its driver as soon as it is accepted.
                driver = await self._driver_of(cluster)
                settings = cluster_manager.hub_settings(await self._cluster_manager(), self.catalog)
                claim = driver.describe_claim(cluster, settings) if isinstance(driver, DescribesClaim) else ""
                described = f"cluster {name} registers by {driver.name}{f' and {claim}' if claim else ''}"
                if isinstance(driver, RequestsCertificate):
                    found = await self.approve(cluster, described)
                    approved = found if found.requests else approved  # a conflict undoes no approval
                else:
                    self.progress(described)
                if self.terms.take_over and not approved.requests:
                    raise NotReady(f"cluster {name} has not asked with a new key yet: run it again later")
                if isinstance(driver, PreparesAcceptance):
                    client, dry_run = self.hub_admin.client, self.hub_admin.dry_run
                    await driver.prepare_acceptance(
                        AcceptanceContext(client=client, cluster=cluster, settings=settings, dry_run=dry_run)
                    )
                changed = await self.hub_admin.accept(cluster, approved.owner, driver.name)
                return AdmissionResult(name, approved.requests, approved.key, changed)
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("returned or raised above")

    async def _driver_of(self, cluster: Object) -> ClusterDriver:
        """Return the driver by which a cluster is to be accepted; `OperationRefused` when the hub does not have it."""
        name = cluster["metadata"]["name"]
        driver = self.catalog.accepted_driver(cluster) or self.catalog.driver_of(cluster)
        manager = await self._cluster_manager()
        enabled = cluster_manager.enabled_drivers(manager, self.catalog) if manager else [driver]
        if driver.name not in {each.name for each in enabled}:
            known = ", ".join(sorted(each.name for each in enabled))
            advice = (
                f"enable it with `watchword init --registration-auth {driver.name}`, or join the cluster again with a "
                "driver of this hub"
            )
            if Annotation.CLUSTER_UID not in annotations_of(cluster):
                advice = (
                    "its ManagedCluster was created beforehand, without the annotations of its agent; set those that "
                    "HubConnectionDegraded of its Klusterlet names, or delete it, so that its agent creates it"
                )
            raise OperationRefused(
                f"cluster {name} registers by the driver {driver.name}, which this hub does not have enabled (it has "
                f"{known}): {advice}"
            )
        return driver

    async def _cluster_manager(self) -> Object:
        """Return the ClusterManager; nothing on a hub without one, or for a person who may not read it."""
        key = ObjectKey.cluster(cluster_manager.CLUSTER_MANAGER)
        with suppress(Forbidden):
            return await self.hub_admin.client.find(CLUSTER_MANAGERS, key) or {}
        return {}

    async def accept_and_wait(self, name: str, waiter: ObjectWaiter) -> AdmissionResult:
        """Wait for the cluster's request, accept it, and wait until the hub has granted its rights."""

        async def look() -> AdmissionResult:
            try:
                return await self.accept(name)
            except (NotFoundOnHub, NotReady) as early:
                why = f"cluster {name} has not asked for a certificate yet"
                if isinstance(early, NotFoundOnHub):
                    why = f"no cluster {name} has asked to join"
                raise PollAgain(why, NotReady(f"{why}: {await self._find_server_problem() or MEMBER_HINT}")) from early

        decision = await poll_until(look, PollOptions(waiter.left(), pause=timedelta(seconds=2)), self.progress)
        await waiter.until(MANAGED_CLUSTERS, ObjectKey.cluster(name), validate_accepted, advice=HUB_RUNNING_HINT)
        return decision

    async def _find_server_problem(self) -> str:
        """Return which server of a driver does not run on this hub, through which clusters would ask."""
        manager = await self._cluster_manager()
        for server in cluster_manager.enabled_servers(manager, self.catalog) if manager else ():
            key = ObjectKey(HUB_NAMESPACE, cluster_manager.server_name(manager, server))
            with suppress(Forbidden):
                problem = await find_deployment_problem(self.hub_admin.client, key)
                if problem is not None:
                    return f"{problem.reason}, see `{problem.command}`; or {MEMBER_HINT}"
        return ""

    async def approve(self, cluster: Object, described: str = "") -> AdmissionResult:
        """Approve the cluster's pending request; raises as `accept` does."""
        name = cluster["metadata"]["name"]
        admission = name_ownership.decide_approval(cluster, await self.hub_admin.csrs_of(name), self.terms)
        if isinstance(admission, name_ownership.RefuseApproval):
            raise OperationRefused(admission.why)
        if isinstance(admission, name_ownership.NoRequest) and not self.terms.anyone:
            raise NotReady(
                f"cluster {name} has not asked for a certificate yet: run the command again in a moment, or with --wait"
            )
        if not isinstance(admission, name_ownership.ApproveRequests):
            return AdmissionResult(name)
        for objection in admission.left_pending:
            self.progress(f"warning: not approved: {objection}")
        requests = await self._allowed_requests(admission, name)
        asked = admission.request
        who = f"{asked.requester} asks with the key {format_key(asked.key_thumbprint)}"
        self.progress(f"{described or f'cluster {name}'}: {who}")
        for csr in requests:
            await self.hub_admin.record_decision(csr, "Approved", "the hub's administrator accepted this cluster")
        names = tuple(csr["metadata"]["name"] for csr in requests)
        owner = NameOwner.of(admission.request, self.hub_admin.clock.now())
        return AdmissionResult(name, names, admission.request.key_thumbprint, owner=owner)

    async def _allowed_requests(self, admission: name_ownership.ApproveRequests, cluster: str) -> list[Object]:
        """Return the requests of the key whose tokens allow the cluster; raise `OperationRefused` when none does.

        An agent whose token expired repeats the request, with the same key and another token.
        """
        allowed, refusals = list[Object](), list[OperationRefused]()
        for csr in admission.requests:
            try:
                await self._note_token(read_cluster_request(csr).requester, cluster)
                allowed.append(csr)
            except OperationRefused as refusal:
                refusals.append(refusal)
        if not allowed:
            raise refusals[0]
        return allowed

    async def _note_token(self, requester: str, cluster: str) -> None:
        """Apply the limits of a bootstrap token to its request, also when it was deleted."""
        key = token_secret_key_of(requester)
        if key is None or self.terms.anyone:
            return
        secret = await self.hub_admin.client.find(SECRETS, key)
        if secret is None and requester in self.terms.requesters:
            return
        client, dry_run = self.hub_admin.client, self.hub_admin.dry_run
        objection = await record_token_use(client, secret, requester, cluster, dry_run=dry_run)
        if objection:
            known = f"; if you know who asked, run again with --requesters {requester}" if secret is None else ""
            raise OperationRefused(f"cluster {cluster} may not join with the token of {requester}: {objection}{known}")


def validate_accepted(found: Object | None) -> str:
    """Return what an accepted cluster still lacks; empty when it has its rights. Raises for what no waiting ends."""
    said = find_condition(found or {}, ConditionType.HUB_ACCEPTED)
    if said is not None and said.reason == NAME_CONFLICT:
        raise OperationRefused(f"the hub cannot give the cluster its rights: {said.message}")
    if said is not None and said.status == "True":
        return ""
    return f"the hub has not given the cluster its rights yet{f' ({said.message})' if said else ''}"


async def deny(hub_admin: HubAdmin, name: str) -> AdmissionResult:
    """Take a cluster's rights away, and deny what is pending under its name."""
    cluster = await hub_admin.cluster(name)
    changed = await hub_admin.deny(cluster)
    pending = [csr for csr in await hub_admin.csrs_of(name) if is_pending(csr)]
    for csr in pending:
        await hub_admin.record_decision(csr, "Denied", "the hub's administrator denied this cluster")
    return AdmissionResult(name, tuple(csr["metadata"]["name"] for csr in pending), changed=changed)


async def deny_request(hub_admin: HubAdmin, name: str) -> AdmissionResult:
    """Deny one request, whatever it contains; `OperationRefused` when it is approved already."""
    csr = await hub_admin.client.find(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))
    if csr is None:
        raise NotFoundOnHub(f"there is no request {name}: `watchword clusters show` lists those of a cluster")
    if find_condition(csr, "Denied") is not None:
        return AdmissionResult()
    if not is_pending(csr):
        raise OperationRefused(
            f"request {name} is approved already: take the cluster's rights away with `watchword deny`"
        )
    await hub_admin.record_decision(csr, "Denied", "the hub's administrator denied this request")
    return AdmissionResult(requests=(name,))


def validate_denied(found: Object | None) -> str:
    said = find_condition(found or {}, ConditionType.HUB_ACCEPTED)
    return "the hub has not taken the cluster's rights away yet" if said is not None and said.status == "True" else ""
