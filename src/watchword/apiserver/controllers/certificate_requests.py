"""Approves, signs and removes certificate signing requests."""

import base64
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import field

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.apiserver.access.rbac import Authorizer
from watchword.apiserver.admission import signing_requests as signers
from watchword.apiserver.controllers.worker import Controller, Watches, delete_if_unchanged
from watchword.apiserver.serving.model import Now, RequestInfo, decode_base64
from watchword.pki.authority import Authority
from watchword.pki.certificates import parse_certificate
from watchword.pki.errors import PkiError

DONE_KEPT = timedelta(hours=1)
PENDING_KEPT = timedelta(hours=24)


class CertificateRequestController(Controller[str]):
    """Triggered by every request, until it has a certificate, is refused or is garbage-collected."""

    authorizer: Authorizer
    authority: Callable[[], Authority]
    now: Now
    _unauthorized: set[str] = field(default_factory=set)  # requests that a new binding may approve

    def watches(self) -> Watches:
        return {
            CERTIFICATE_SIGNING_REQUESTS: self._request_changed,
            CLUSTER_ROLE_BINDINGS: self._rights_changed,
            CLUSTER_ROLES: self._rights_changed,
        }

    def _request_changed(self, change: str, new: Object) -> None:
        name = new["metadata"]["name"]
        if change == "DELETED":
            self._unauthorized.discard(name)
        self.worker.enqueue(name)

    def _rights_changed(self, _change: str, _new: Object) -> None:
        for name in self._unauthorized:
            self.worker.enqueue(name)

    async def sync(self, name: str) -> float | None:
        csr = self.registry.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))
        if csr is None:
            return None
        now = self.now()
        until = decide_removal_time(csr)
        if until is not None and until <= now:
            await delete_if_unchanged(self.registry, CERTIFICATE_SIGNING_REQUESTS, csr)
            return None
        await self._approve(csr)
        if signers.has_condition(csr, signers.APPROVED):
            await self._sign(csr, now)
        return (until - now).total_seconds() if until is not None else None

    async def _approve(self, csr: Object) -> None:
        """Approve a node's own request; keep it when only the right is missing, which may be granted later."""
        self._unauthorized.discard(csr["metadata"]["name"])
        if signers.certificate_of(csr) or signers.has_condition(csr, signers.APPROVED, signers.DENIED):
            return
        for right, message in auto_approval_permissions(csr):
            info = RequestInfo(
                "create",
                is_resource=True,
                group=CERTIFICATE_SIGNING_REQUESTS.group,
                version="*",
                resource=CERTIFICATE_SIGNING_REQUESTS.plural,
                subresource=right,
            )
            if self.authorizer.decide(signers.requester_of(csr), info).allowed:
                await self._add_condition(csr, signers.APPROVED, "AutoApproved", message, "approval")
                self._unauthorized.discard(csr["metadata"]["name"])
                return
            self._unauthorized.add(csr["metadata"]["name"])

    async def _sign(self, csr: Object, now: datetime) -> None:
        validate_for_signer = signers.SIGNERS.get(signers.signer_of(csr))
        if (
            validate_for_signer is None
            or signers.certificate_of(csr)
            or signers.has_condition(csr, signers.FAILED, signers.DENIED)
        ):
            return
        try:
            identity = signers.parse_pem_request(csr)
            complaint = validate_for_signer(identity, signers.usages_of(csr))
            if complaint:
                await self._add_condition(csr, signers.FAILED, "SignerValidationFailure", complaint, "status")
                return
            lifetime = signers.choose_certificate_lifetime(csr["spec"].get("expirationSeconds"))
            certificate = signers.sign_request(
                self.authority(), identity, signers.usages_of(csr), now=now, lifetime=lifetime
            )
        except PkiError as refusal:
            await self._add_condition(csr, signers.FAILED, "SigningFailure", str(refusal), "status")
            return
        encoded = base64.b64encode(certificate.pem).decode()
        csr["status"] = {**(csr.get("status") or {}), "certificate": encoded}
        await self.registry.update(CERTIFICATE_SIGNING_REQUESTS, csr, "status")

    async def _add_condition(self, csr: Object, type_: str, reason: str, message: str, subresource: str) -> None:
        now = rfc3339(self.now())
        row = {
            "type": type_,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
        csr["status"] = {**(csr.get("status") or {}), "conditions": [*conditions_of(csr), row]}
        stored = await self.registry.update(CERTIFICATE_SIGNING_REQUESTS, csr, subresource)
        csr.update(stored)


def auto_approval_permissions(csr: Object) -> list[tuple[str, str]]:
    if signers.signer_of(csr) != signers.KUBELET_CLIENT:
        return []
    try:
        identity = signers.parse_pem_request(csr)
    except PkiError:
        return []
    if signers.validate_kubelet_client_request(identity, signers.usages_of(csr)):
        return []
    rights = [("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")]
    if signers.requester_of(csr).name == identity.common_name:
        rights.insert(
            0, ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
        )
    return rights


def decide_removal_time(csr: Object) -> datetime | None:
    """Return until when a request is kept; None when its times cannot be read."""
    ends: list[datetime] = []
    rows = conditions_of(csr)
    created = parse_rfc3339(csr["metadata"].get("creationTimestamp") or "")
    if not rows and created is not None:
        ends.append(created + PENDING_KEPT)
    issued = signers.certificate_of(csr)
    kept = {
        signers.DENIED: DONE_KEPT,
        signers.FAILED: DONE_KEPT,
        signers.APPROVED: DONE_KEPT if issued else PENDING_KEPT,
    }
    for row in rows:
        updated, duration = parse_rfc3339(str(row.get("lastUpdateTime"))), kept.get(row.get("type") or "")
        if updated is not None and duration is not None:
            ends.append(updated + duration)
    expires = _expiry(issued) if issued and signers.has_condition(csr, signers.APPROVED) else None
    return min([*ends, *([expires] if expires is not None else [])], default=None)


def _expiry(issued: str) -> datetime | None:
    try:
        return parse_certificate(decode_base64(issued)).not_after
    except PkiError:
        return None
