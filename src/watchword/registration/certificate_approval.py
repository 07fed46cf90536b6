"""Approves the requests that an accepted or allow-listed cluster may make, and no others."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, labels_of
from watchword.api.names import GRPC_SIGNER, KUBE_CLIENT_SIGNER, REGISTER_GROUP, ConditionType, Label, agent_user
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS
from watchword.credentials.certificates import name_ownership, requests
from watchword.credentials.driver import CredentialCondition, CredentialKind, HubContext
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, read_identity
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, RetryAfter, Trigger

CLUSTER_CERTIFICATE = CredentialKind(
    name="cluster certificate",
    conditions=(
        CredentialCondition(
            ConditionType.CERTIFICATE_ROTATED, "ClientCertificateUpdated", "ClientCertificateUpdateFailed"
        ),
    ),
    consequence="{cluster} is disconnected from the hub: no work, no add-ons, Unknown after five minutes",
)


class AllowList(Struct, frozen=True):
    """The users and groups whose first request is approved automatically."""

    enabled: bool = False  # the feature gate
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: frozenset[str]) -> bool:
        return self.enabled and (user in self.users or bool(groups & self.groups))


SUPERSEDED = "Superseded"
RENEWAL = ResourceAccess(
    "renew", Resource(REGISTER_GROUP, "", "managedclusters", "ManagedCluster"), subresource="clientcertificates"
)
AWAITING_CLUSTER = timedelta(minutes=1)
AWAITING_ACCEPTANCE = timedelta(seconds=10)  # after an approval by hand comes the acceptance, which records the key


class CertificateApprovalReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest of clusters to one signer; triggered by it and by its ManagedCluster."""

    context: HubContext
    driver: str  # whose clusters are accepted together with their first request
    signer: str
    allow_list: AllowList

    async def reconcile(self, key: ObjectKey) -> Outcome:
        csr = self.context.cache.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or Label.ADDON_NAME in labels_of(csr) or not self._is_own(csr):
            return Done()
        if not requests.is_pending(csr):
            return await self._record_external_approval(csr)
        try:
            request = requests.read_cluster_request(csr)
        except requests.CertificateRequestRefused as objection:
            self.context.events.refusal(csr, "CSRRefused", str(objection))
            return Done()
        cluster = self.context.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(request.cluster))
        if cluster is not None and not self.context.is_certified(cluster):
            message = f"cluster {request.cluster} registers by another driver, which uses no certificates"
            self.context.events.refusal(csr, "DriverNotAccepted", message)
            return Done()
        if request.is_renewal:
            return await self._approve_renewal(csr, request)
        return await self._approve_first_request(csr, request, cluster)

    async def _approve_renewal(self, csr: Object, request: requests.ClusterRequest) -> Outcome:
        if requests.requester_of(csr).is_direct:
            who = read_identity(csr.get("spec") or {})
        else:
            who = UserIdentity(request.requester, groups=tuple(sorted(request.requester_groups)))
        if not await may(self.context.client, who, RENEWAL):
            self.context.events.refusal(csr, "RenewalDenied", f"cluster {request.cluster} is not accepted by this hub")
            return Done()  # repeated ever more rarely: rights and limits of tokens change without a trigger
        return await self._approve(csr, "the agent renews its own certificate")

    async def _approve_first_request(
        self, csr: Object, request: requests.ClusterRequest, cluster: Object | None
    ) -> Outcome:
        if not self.allows(request):
            return Done()  # waits for an administrator: `accept`
        if cluster is None:
            return RetryAfter(AWAITING_CLUSTER)
        objection = name_ownership.validate_name_ownership(
            cluster, request, name_ownership.choose_name_owner(cluster, self.requests_of(request.cluster))
        )
        if objection is None:
            objection = await self.context.validate_registration(request.requester, request.cluster)
        if objection and self._is_superseded(csr, request):
            message = "the agent has renewed its certificate since, and does not need this one"
            return await self._decide(csr, requests.DENIED, SUPERSEDED, message)
        if objection:
            self.context.events.refusal(csr, "NameAlreadyOwned", objection)
            return Done()  # repeated ever more rarely: rights and limits of tokens change without a trigger
        await self._record_owner(cluster, request)
        return await self._approve(csr, "the requester is on the allow-list")

    async def _record_owner(self, cluster: Object, request: requests.ClusterRequest) -> None:
        """Record the key before its approval, so that of two requests at once, even at two hubs, one is refused.

        The same write accepts a cluster about which nothing is decided yet.
        """
        noted = name_ownership.read_name_owner(cluster)
        if noted is None or not noted.is_of(request):
            owner = name_ownership.NameOwner.of(request, self.context.clock.now())
            acceptance = self.context.auto_acceptance(cluster, self.driver)
            await self._patch_cluster(cluster, name_ownership.name_owner_patch(cluster, owner, acceptance))

    async def _patch_cluster(self, cluster: Object, patch: Object) -> None:
        await self.context.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), with_preconditions(cluster, patch))

    async def _record_external_approval(self, csr: Object) -> Outcome:
        """Record who got the name by another approver: requests are soon deleted, certificates stay valid."""
        if name_ownership.approved_by_others_at(csr) is None:
            return Done()
        name = labels_of(csr).get(Label.CLUSTER_NAME, "")
        cluster = self.context.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if cluster is None or is_deleting(cluster):
            return Done()
        owner = name_ownership.choose_name_owner(cluster, self.requests_of(name))
        if owner is None or owner == name_ownership.read_name_owner(cluster):
            return Done()
        if not Cluster.read(cluster).accepted and self.context.clock.now() - owner.since < AWAITING_ACCEPTANCE:
            return RetryAfter(AWAITING_ACCEPTANCE)
        await self._patch_cluster(cluster, name_ownership.name_owner_patch(cluster, owner))
        return Done()

    def allows(self, request: requests.ClusterRequest) -> bool:
        return request.signer == self.signer and self.allow_list.allows(request.requester, request.requester_groups)

    def _is_own(self, csr: Object) -> bool:
        """Whether a request is for this signer; those for signers that no driver knows are refused by the default."""
        wanted = str((csr.get("spec") or {}).get("signerName") or "")
        return wanted == self.signer or (self.signer == KUBE_CLIENT_SIGNER and wanted != GRPC_SIGNER)

    def requests_of(self, cluster: str) -> Sequence[Object]:
        return self.context.cache.by_index(CERTIFICATE_SIGNING_REQUESTS, "cluster", cluster)

    def _is_superseded(self, csr: Object, request: requests.ClusterRequest) -> bool:
        """Whether the very agent that a request names has renewed its certificate since, as only the agent can."""
        renewals = (
            other
            for other in self.requests_of(request.cluster)
            if requests.requester_of(other).user == agent_user(request.cluster, request.agent)
            and requests.is_approved_by_hub(other)
        )
        created = str(csr["metadata"].get("creationTimestamp") or "")
        return any(str(other["metadata"].get("creationTimestamp") or "") >= created for other in renewals)

    async def _approve(self, csr: Object, message: str) -> Outcome:
        return await self._decide(csr, requests.APPROVED, requests.APPROVED_REASON, message)

    async def _decide(self, csr: Object, verdict: str, reason: str, message: str) -> Outcome:
        decided = requests.with_decision(csr, verdict, reason, message, now=self.context.clock.now())
        await self.context.client.update(CERTIFICATE_SIGNING_REQUESTS, decided, subresource="approval")
        self.context.events.normal(csr, reason, message)
        return Done()


class CertificateHubDriver(Struct, frozen=True):
    """The hub's side: certificates need nothing besides the approval of requests."""

    approvals: CertificateApprovalReconciler
    name: str = "csr-approval"  # of the controller

    async def grant(self, cluster: Cluster) -> None:
        """Do nothing: approval of the request and RBAC suffice."""

    async def revoke(self, cluster: Cluster) -> None:
        """Do nothing: without RBAC the certificate has no rights, and its renewal is refused."""

    def is_auto_accepted(self, cluster: Cluster) -> bool:
        """Whether this very cluster, and no earlier one of its name, was given a certificate by allow-list."""
        noted = name_ownership.read_name_owner(cluster.object)
        if noted is None:
            return False
        found = name_ownership.first_requests(self.approvals.requests_of(cluster.name))
        return any(requests.is_approved(csr) and noted.is_of(row) and self.approvals.allows(row) for csr, row in found)

    def controllers(self) -> Iterable[ControllerSpec]:
        yield ControllerSpec(
            name=self.name,
            root=CERTIFICATE_SIGNING_REQUESTS,
            reconciler=self.approvals,
            triggers=(Trigger(MANAGED_CLUSTERS, self._pending_requests),),
            concerns=lambda csr: not (Label.ADDON_NAME in labels_of(csr) or requests.is_approved_by_hub(csr)),
            acts_on_deletion=False,
        )

    def _pending_requests(self, cluster: Object) -> Iterable[ObjectKey]:
        name = cluster["metadata"]["name"]
        found = self.approvals.context.cache.by_index(CERTIFICATE_SIGNING_REQUESTS, "cluster", name)
        return [ObjectKey.of(csr) for csr in found if requests.is_pending(csr)]
