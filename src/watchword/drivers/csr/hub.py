"""Approves the requests that an accepted or allow-listed cluster may make, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from watchword.api.cluster import Cluster
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import REGISTER_GROUP, Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SUBJECT_ACCESS_REVIEWS
from watchword.api.time import rfc3339
from watchword.drivers.csr.judge import ClusterRequest, read_cluster_request
from watchword.drivers.errors import Unacceptable
from watchword.drivers.interface import HubContext
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, RetryAfter, Wake

APPROVED_REASON = "AutoApprovedByHubCSRApprovingController"
AWAITING_CLUSTER = timedelta(minutes=1)


@dataclass(frozen=True)
class CsrApprovalReconciler:
    """Reconciles CertificateSigningRequest of clusters; woken by it and by its ManagedCluster."""

    context: HubContext
    claims: dict[str, str] = field(default_factory=dict)  # cluster → key approved first, while it has not joined yet

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Approve the request or leave it to a person, and say why."""
        csr = self.context.reader.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_pending(csr) or Label.ADDON_NAME in labels_of(csr):
            return Done()
        try:
            request = read_cluster_request(csr)
        except Unacceptable as objection:
            self.context.events.warning(csr, "CSRRefused", str(objection))
            return Done()
        if request.is_renewal:
            return await self._renew(csr, request)
        return await self._admit(csr, request)

    async def _renew(self, csr: Object, request: ClusterRequest) -> Outcome:
        review = await self.context.client.create(SUBJECT_ACCESS_REVIEWS, renewal_review(csr))
        if (review.get("status") or {}).get("allowed") is not True:
            self.context.events.warning(csr, "RenewalDenied", f"cluster {request.cluster} is not accepted by this hub")
            return Done()
        return await self._approve(csr, "ManagedClusterCSRAutoApproved", "the agent renews its own certificate")

    async def _admit(self, csr: Object, request: ClusterRequest) -> Outcome:
        if not self.covers(request):
            return Done()  # waits for a person: `accept`
        cluster = self.context.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(request.cluster))
        if cluster is None:
            return RetryAfter(AWAITING_CLUSTER)
        objection = judge_first_claim(cluster, request, self._claimed(request.cluster))
        if objection is None:
            objection = await self._claim(request)
        if objection:
            self.context.events.warning(csr, "NameAlreadyOwned", objection)
            return Done()
        return await self._approve(csr, "ManagedClusterAutoApproved", "the requester is on the allow-list")

    async def _claim(self, request: ClusterRequest) -> str | None:
        """Take the name before anything is waited for, so that of two requests at once only one gets it."""
        first = request.cluster not in self.claims
        self.claims[request.cluster] = request.key_thumbprint
        objection: str | None = "the question was not answered"
        try:
            objection = await self.context.may_register(request.requester, request.cluster)
        finally:
            if objection and first:
                self.claims.pop(request.cluster, None)
        return objection

    def covers(self, request: ClusterRequest) -> bool:
        """Whether the requester is on the allow-list."""
        return self.context.allow.covers(request.requester, request.requester_groups)

    def _claimed(self, cluster: str) -> str:
        """Return the key that was approved for this name first, from memory or from what is still on record."""
        if cluster in self.claims:
            return self.claims[cluster]
        approved = (r for csr, r in self.requests_of(cluster) if is_approved(csr) and not r.is_renewal)
        return next((request.key_thumbprint for request in approved), "")

    def requests_of(self, cluster: str) -> Iterable[tuple[Object, ClusterRequest]]:
        """Return the well-formed requests on record for a cluster."""
        for csr in self.context.reader.by_index(CERTIFICATE_SIGNING_REQUESTS, "cluster", cluster):
            try:
                yield csr, read_cluster_request(csr)
            except Unacceptable:
                continue

    async def _approve(self, csr: Object, event: str, message: str) -> Outcome:
        approval = approval_of(csr, APPROVED_REASON, message, now=rfc3339(self.context.clock.now()))
        await self.context.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")
        self.context.events.normal(csr, event, message)
        return Done()


def registers_by_certificate(cluster: Object) -> bool:
    """Whether a ManagedCluster does not say that it registers otherwise."""
    marks = (Annotation.EKS_CLUSTER_ARN, Annotation.MANAGED_CLUSTER_ARN)
    return not any(annotations_of(cluster).get(mark) for mark in marks)


def is_pending(csr: Object) -> bool:
    """Whether nobody has decided about the request yet."""
    return not (csr.get("status") or {}).get("conditions")


def is_approved(csr: Object) -> bool:
    """Whether the request was approved."""
    return is_true(csr, "Approved")


def approval_of(csr: Object, reason: str, message: str, *, now: str) -> Object:
    """Return the request with an approval, to be sent to its approval subresource."""
    row = {"type": "Approved", "status": "True", "reason": reason, "message": message, "lastUpdateTime": now}
    status: Object = csr.get("status") or {}
    return {**csr, "status": {**status, "conditions": [*(status.get("conditions") or []), row]}}


def judge_first_claim(cluster: Object, request: ClusterRequest, claimed: str) -> str | None:
    """Return why the name belongs to another already, or None when it is free for this key."""
    if is_true(cluster, ConditionType.JOINED):
        return (
            f"cluster name {request.cluster} is owned by a cluster that has joined: "
            "choose another name, or let the hub's administrator run rejoin --take-over"
        )
    if claimed and claimed != request.key_thumbprint:
        return f"cluster name {request.cluster} was claimed first by the key {claimed[:16]}"
    return None


def renewal_review(csr: Object) -> Object:
    """Return the question whether the requester may renew a cluster's certificate."""
    spec: Mapping[str, Any] = csr.get("spec") or {}
    who = {name: spec[name] for name in ("uid", "groups", "extra") if spec.get(name)}
    asked = {
        "group": REGISTER_GROUP,
        "resource": "managedclusters",
        "subresource": "clientcertificates",
        "verb": "renew",
    }
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {"user": spec.get("username", ""), **who, "resourceAttributes": asked},
    }


@dataclass(frozen=True)
class CsrHubDriver:
    """The hub's side: certificates need nothing besides the approval of requests."""

    approvals: CsrApprovalReconciler

    @classmethod
    def make(cls, context: HubContext) -> CsrHubDriver:
        """Return the driver, ready to use."""
        return cls(CsrApprovalReconciler(context))

    def recognises(self, cluster: Cluster) -> bool:
        """Every cluster that does not say it registers otherwise."""
        return registers_by_certificate(cluster.object)

    async def grant(self, cluster: Cluster) -> None:
        """Nothing: the signer trusts the approval, and RBAC trusts the certificate."""

    async def revoke(self, cluster: Cluster) -> None:
        """Nothing: without RBAC the certificate opens no door, and its renewal is refused."""
        self.approvals.claims.pop(cluster.name, None)

    def vouches_for(self, cluster: Cluster) -> bool:
        """Whether an allow-listed requester's first certificate for this name was approved."""
        covers = self.approvals.covers
        return any(is_approved(csr) and covers(request) for csr, request in self.approvals.requests_of(cluster.name))

    def controllers(self) -> Iterable[ControllerSpec]:
        """Return the approval of requests."""
        yield ControllerSpec(
            name="csr-approval",
            root=CERTIFICATE_SIGNING_REQUESTS,
            reconciler=self.approvals,
            wakes=(Wake(MANAGED_CLUSTERS, self._pending_requests),),
        )

    def _pending_requests(self, cluster: Object) -> Iterable[ObjectKey]:
        name = cluster["metadata"]["name"]
        found = self.approvals.context.reader.by_index(CERTIFICATE_SIGNING_REQUESTS, "cluster", name)
        return [ObjectKey.of(csr) for csr in found if is_pending(csr)]
