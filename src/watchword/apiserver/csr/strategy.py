"""Which part of a request each endpoint may write, and what the server writes itself."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver import errors
from watchword.apiserver.authz.model import SUPERUSERS, Authorizer
from watchword.apiserver.csr.signers import (
    APPROVED,
    DENIED,
    GROUP,
    KUBE_APISERVER_CLIENT,
    PLURAL,
    certificate_of,
    conditions_named,
    parse_pem_request,
    signer_of,
)
from watchword.apiserver.model import ApiError, Now, Operation, RequestInfo, User, user_info
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
        raise _forbidden(operation, f"use of {KUBE_APISERVER_CLIENT} signer with {SUPERUSERS} group is not allowed")


def _changes_signature(operation: Operation) -> bool:
    new, old = operation.new, operation.old
    if operation.subresource != "status" or new is None or old is None:
        return False
    return certificate_of(new) != certificate_of(old) or conditions_of(new) != conditions_of(old)


def _forbidden(operation: Operation, message: str) -> ApiError:
    return errors.forbidden(operation.kind.resource, operation.key.name, message)


_REQUESTER = frozenset({"username", "uid", "groups", "extra"})


def prepare_signing_request(operation: Operation) -> None:
    """Restrict a write to what the endpoint may change; the requester is always the authenticated user."""
    new, old = operation.new, operation.old
    if new is None:
        return
    if old is None:
        asked = {key: value for key, value in (new.get("spec") or {}).items() if key not in _REQUESTER}
        new["spec"] = {**asked, **user_info(operation.user)}
        new["status"] = {}
        return
    new["spec"] = old.get("spec") or {}
    kept = old.get("status") or {}
    if operation.subresource == "approval":
        rows = conditions_of(new)
        new["status"] = {**kept, "conditions": rows}
        if not rows:
            del new["status"]["conditions"]
    elif operation.subresource == "status":
        for type_ in (APPROVED, DENIED):
            _keep_conditions(new, old, type_)
    else:
        new["status"] = kept


def _keep_conditions(new: Object, old: Object, type_: str) -> None:
    # a signer that sends the list back must not change the approver's condition;
    # added or removed ones are left for validation to refuse
    stored = conditions_named(old, type_)
    rows = conditions_of(new)
    places = [index for index, row in enumerate(rows) if row.get("type") == type_]
    if len(places) == len(stored):
        for index, row in zip(places, stored, strict=True):
            rows[index] = row


class ConditionTimes(Struct, frozen=True):
    """A mutating admission step: fills the times that a new condition leaves out."""

    now: Now

    async def __call__(self, operation: Operation) -> None:
        resource = operation.kind.resource
        if (resource.group, resource.plural) != (GROUP, PLURAL) or not operation.subresource:
            return
        if operation.new is None or operation.old is None:
            return
        now = rfc3339(self.now())
        for row in conditions_of(operation.new):
            if not row.get("lastUpdateTime"):
                row["lastUpdateTime"] = now
            if not row.get("lastTransitionTime"):
                row["lastTransitionTime"] = _transition_of(operation.old, row) or now


def _transition_of(old: Object, row: Object) -> str:
    return next(
        (
            str(known["lastTransitionTime"])
            for known in conditions_named(old, row.get("type") or "")
            if known.get("status") == row.get("status") and known.get("lastTransitionTime")
        ),
        "",
    )
