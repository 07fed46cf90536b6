"""Checks who may approve and sign, and refuses the superuser group as a subject."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.apiserver import errors
from watchword.apiserver.authz.model import SUPERUSERS, Authorizer
from watchword.apiserver.csr.model import (
    GROUP,
    KUBE_APISERVER_CLIENT,
    PLURAL,
    certificate_of,
    parse_pem_request,
    signer_of,
)
from watchword.apiserver.model import ApiError, Operation, RequestInfo, User
from watchword.pki.errors import InvalidCsr


class CertificateAdmission(Struct, frozen=True):
    """A validating admission step for CertificateSigningRequests; other operations pass."""

    authorizer: Authorizer

    async def __call__(self, operation: Operation) -> None:
        """Raise 403 when the user lacks the right for this signer, or the subject is system:masters."""
        resource = operation.kind.resource
        if (resource.group, resource.plural) != (GROUP, PLURAL) or operation.new is None:
            return
        if operation.verb == "create":
            _refuse_superusers(operation, operation.new)
        elif operation.old is not None and operation.subresource == "approval":
            self._require(operation, operation.old, "approve")
        elif _changes_signature(operation):
            self._require(operation, operation.old or {}, "sign")

    def _require(self, operation: Operation, old: Object, verb: str) -> None:
        # the stored signer counts, whatever the update contains
        signer = signer_of(old)
        if not may_act_for_signer(self.authorizer, operation.user, verb, signer):
            raise _forbidden(operation, f"user not permitted to {verb} requests with signerName {errors.quote(signer)}")


def may_act_for_signer(authorizer: Authorizer, user: User, verb: str, signer: str) -> bool:
    """Whether the user may do it for this very signer or for its whole domain."""
    domain = signer.partition("/")[0]
    return any(
        authorizer.decide(
            user,
            RequestInfo(verb=verb, path="", is_resource=True, group=GROUP, version="*", resource="signers", name=name),
        ).allowed
        for name in (signer, f"{domain}/*")
    )


def _refuse_superusers(operation: Operation, csr: Object) -> None:
    if signer_of(csr) != KUBE_APISERVER_CLIENT:
        return
    try:
        identity = parse_pem_request(csr)
    except InvalidCsr as refusal:
        raise _forbidden(operation, f"failed to parse CSR: {refusal}") from refusal
    if SUPERUSERS in identity.organisations:
        message = f"use of {KUBE_APISERVER_CLIENT} signer with {SUPERUSERS} group is not allowed"
        raise _forbidden(operation, message)


def _changes_signature(operation: Operation) -> bool:
    new, old = operation.new, operation.old
    if operation.subresource != "status" or new is None or old is None:
        return False
    return certificate_of(new) != certificate_of(old) or conditions_of(new) != conditions_of(old)


def _forbidden(operation: Operation, message: str) -> ApiError:
    return errors.forbidden(operation.kind.resource, operation.key.name, message)
