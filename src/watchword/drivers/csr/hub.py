"""Approves the requests that an accepted or allow-listed cluster may make, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from watchword.api.cluster import Cluster
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of
from watchword.api.names import REGISTER_GROUP, Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SUBJECT_ACCESS_REVIEWS
from watchword.api.time import rfc3339
from watchword.drivers.csr.claims import (
    APPROVED_REASON,
    Claim,
    approved_by_others_at,
    choose_claim,
    first_requests,
    note_of,
    read_claim,
)
from watchword.drivers.csr.judge import ClusterRequest, read_cluster_request
from watchword.drivers.errors import Unacceptable
from watchword.drivers.interface import HubContext
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, RetryAfter, Wake

AWAITING_CLUSTER = timedelta(minutes=1)
AWAITING_ACCEPTANCE = timedelta(seconds=10)  # whoever approves by hand accepts next, and notes the key with it


@dataclass(frozen=True)
class CsrApprovalReconciler:
    """Reconciles CertificateSigningRequest of clusters; woken by it and by its ManagedCluster."""

    context: HubContext

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Approve the request or leave it to a person, and say why."""
        csr = self.context.reader.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or Label.ADDON_NAME in labels_of(csr):
            return Done()
        if not is_pending(csr):
            return await self._note(csr)
        try:
            request = read_cluster_request(csr)
        except Unacceptable as objection:
            self.context.events.refusal(csr, "CSRRefused", str(objection))
            return Done()
        if request.is_renewal:
            return await self._renew(csr, request)
        return await self._admit(csr, request)

    async def _renew(self, csr: Object, request: ClusterRequest) -> Outcome:
        review = await self.context.client.create(SUBJECT_ACCESS_REVIEWS, renewal_review(csr))
        if (review.get("status") or {}).get("allowed") is not True:
            self.context.events.refusal(csr, "RenewalDenied", f"cluster {request.cluster} is not accepted by this hub")
            return Done()
        return await self._approve(csr, "the agent renews its own certificate")

    async def _admit(self, csr: Object, request: ClusterRequest) -> Outcome:
        if not self.covers(request):
            return Done()  # waits for a person: `accept`
        cluster = self.context.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(request.cluster))
        if cluster is None:
            return RetryAfter(AWAITING_CLUSTER)
        objection = judge_first_claim(cluster, request, choose_claim(cluster, self.requests_of(request.cluster)))
        if objection is None:
            objection = await self.context.may_register(request.requester, request.cluster)
        if objection:
            self.context.events.refusal(csr, "NameAlreadyOwned", objection)
            return Done()
        await self._claim(cluster, request)
        return await self._approve(csr, "the requester is on the allow-list")

    async def _claim(self, cluster: Object, request: ClusterRequest) -> None:
        """Note the key before it is approved: of two at once, seen by two hubs even, one meets the other's note."""
        noted = read_claim(cluster)
        if noted is None or not noted.is_of(request):
            await self._write_claim(cluster, Claim.of(request, self.context.clock.now()))

    async def _write_claim(self, cluster: Object, claim: Claim) -> None:
        note = with_preconditions(cluster, note_of(cluster, claim))
        await self.context.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), note)

    async def _note(self, csr: Object) -> Outcome:
        """Note to whom somebody else gave the name: requests are forgotten within the hour, certificates live on."""
        if approved_by_others_at(csr) is None:
            return Done()
        name = labels_of(csr).get(Label.CLUSTER_NAME, "")
        cluster = self.context.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if cluster is None or is_deleting(cluster):
            return Done()
        claim = choose_claim(cluster, self.requests_of(name))
        if claim is None or claim == read_claim(cluster):
            return Done()
        if not Cluster.read(cluster).accepted and self.context.clock.now() - claim.since < AWAITING_ACCEPTANCE:
            return RetryAfter(AWAITING_ACCEPTANCE)
        await self._write_claim(cluster, claim)
        return Done()

    def covers(self, request: ClusterRequest) -> bool:
        """Whether the requester is on the allow-list."""
        return self.context.allow.covers(request.requester, request.requester_groups)

    def requests_of(self, cluster: str) -> Sequence[Object]:
        """Return the requests on record that carry a cluster's label."""
        return self.context.reader.by_index(CERTIFICATE_SIGNING_REQUESTS, "cluster", cluster)

    async def _approve(self, csr: Object, message: str) -> Outcome:
        """Approve, and say why in the approval itself: an event would say the same, at the price of a request."""
        approval = approval_of(csr, APPROVED_REASON, message, now=rfc3339(self.context.clock.now()))
        await self.context.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")
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


def judge_first_claim(cluster: Object, request: ClusterRequest, claim: Claim | None) -> str | None:
    """Return why the name belongs to another already, or None when it is free for this key."""
    if is_true(cluster, ConditionType.JOINED):
        return (
            f"cluster name {request.cluster} is owned by a cluster that has joined: "
            "choose another name, or let the hub's administrator run rejoin --take-over"
        )
    if claim is not None and claim.key != request.key_thumbprint:
        return (
            f"cluster name {request.cluster} was claimed first by the key {claim.key[:16]}: if that key is lost, "
            "let the hub's administrator run rejoin --take-over, or delete a cluster that was never accepted"
        )
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

    def vouches_for(self, cluster: Cluster) -> bool:
        """Whether this very cluster, and no earlier one of its name, was given a certificate by allow-list."""
        noted = read_claim(cluster.object)
        if noted is None:
            return False
        found = first_requests(self.approvals.requests_of(cluster.name))
        return any(is_approved(csr) and noted.is_of(row) and self.approvals.covers(row) for csr, row in found)

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
