"""What may be written to a CertificateSigningRequest, by which endpoint and by whom."""

import base64
from collections.abc import Callable, Iterator

import orjson
from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver import errors
from watchword.apiserver.authz.model import SUPERUSERS, Authorizer
from watchword.apiserver.csr.signers import (
    APPROVED,
    DENIED,
    FAILED,
    GROUP,
    KUBE_APISERVER_CLIENT,
    LEGACY_UNKNOWN,
    PLURAL,
    certificate_of,
    conditions_named,
    parse_pem_request,
    signer_of,
    usages_of,
)
from watchword.apiserver.errors import quote
from watchword.apiserver.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long, too_many
from watchword.apiserver.kinds.metadata import dns_label, dns_subdomain
from watchword.apiserver.model import ApiError, FieldError, Now, Operation, RequestInfo, User, user_info
from watchword.pki.certificates import parse_certificate
from watchword.pki.errors import InvalidCsr, PkiError
from watchword.pki.keys import CERTIFICATE, armour, blocks

SHORTEST_SECONDS = 600
MAX_REQUEST_BYTES = 64 * 1024  # of PEM, of metadata and of extra: a bootstrap token suffices to store requests
USAGES = frozenset(
    (
        *("signing", "digital signature", "content commitment", "key encipherment", "key agreement"),
        *("data encipherment", "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth"),
        *("client auth", "code signing", "email protection", "s/mime", "ipsec end system", "ipsec tunnel"),
        *("ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc"),
    )
)
_ONLY_TRUE = (APPROVED, DENIED, FAILED)
_CONDITIONS = "status.conditions"


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
            raise _forbidden(operation, f"user not permitted to {verb} requests with signerName {quote(signer)}")


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


def validate_signing_request(operation: Operation) -> list[FieldError]:
    new, old = operation.new, operation.old
    if new is None:
        return []
    found = [] if old is not None else [*_spec_errors(new)]  # the spec never changes after that
    found.extend(_condition_errors(new, old))
    if old is None or certificate_of(new) != certificate_of(old):
        found.extend(_certificate_errors(new))
    if old is not None:
        found.extend(_removal_errors(new, old))
        if operation.subresource != "approval":
            found.extend(_approval_errors(new, old))
        found.extend(_certificate_change_errors(new, old, may_set=operation.subresource == "status"))
    return found


def _spec_errors(csr: Object) -> Iterator[FieldError]:
    spec = csr.get("spec") or {}
    if len(spec.get("request") or "") * 3 // 4 > MAX_REQUEST_BYTES:
        yield too_long("spec.request", MAX_REQUEST_BYTES)
    else:
        complaint = validate_pem_request(csr)
        if complaint:
            yield invalid("spec.request", spec.get("request"), complaint)
    for path, value in (("metadata", csr.get("metadata")), ("spec.extra", spec.get("extra"))):
        if len(orjson.dumps(value)) > MAX_REQUEST_BYTES:
            yield too_long(path, MAX_REQUEST_BYTES)
    yield from _usage_errors(usages_of(csr))
    yield from _signer_errors(signer_of(csr))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, detail)


def _usage_errors(usages: tuple[str, ...]) -> Iterator[FieldError]:
    if not usages:
        yield required("spec.usages")
    if len(usages) > len(USAGES):
        yield too_many("spec.usages", len(usages), len(USAGES))
        return
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            yield not_supported(f"spec.usages[{index}]", usage, sorted(USAGES))
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield duplicate(f"spec.usages[{index}]", usage)


def validate_pem_request(csr: Object) -> str:
    """Return what is wrong with the PEM request, empty when its signature proves possession of the key."""
    try:
        identity = parse_pem_request(csr)
    except InvalidCsr as refusal:
        text = str(refusal)
        return "PEM block type must be CERTIFICATE REQUEST" if "PEM block" in text or "base64" in text else text
    return "" if identity.signature_valid else "the signature of the request is not made by its own key"


def _signer_errors(signer: str) -> Iterator[FieldError]:
    path = "spec.signerName"
    if signer == LEGACY_UNKNOWN:
        yield invalid(path, signer, "the legacy signerName is not allowed via this API version")
        return
    if not signer:
        yield required(path)
        return
    domain, slash, rest = signer.partition("/")
    if not slash or "/" in rest:
        yield invalid(path, signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    yield from _label_errors(path, domain, dns_label)
    if "." not in domain:
        yield invalid(path, domain, "should be a domain with at least two segments separated by dots")
    yield from _label_errors(path, rest, dns_subdomain)
    if len(domain) > 253 or len(signer) > 571:
        yield too_long(path, 571)


def _label_errors(path: str, text: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    for part in text.split("."):
        complaints = rule(part)
        if complaints:  # one bad label is enough: the others would have the same message
            return [invalid(path, text, f"validating label {quote(part)}: {words}") for words in complaints]
    return []


def _condition_errors(csr: Object, old: Object | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    both = old is not None and conditions_named(old, APPROVED) and conditions_named(old, DENIED)
    for index, row in enumerate(conditions_of(csr)):
        type_, status = row.get("type") or "", row.get("status") or ""
        allowed = ("True",) if type_ in _ONLY_TRUE else ("False", "True", "Unknown")
        if not type_:
            yield required(f"{_CONDITIONS}[{index}].type")
        if not status:
            yield required(f"{_CONDITIONS}[{index}].status")
        elif status not in allowed:
            yield not_supported(f"{_CONDITIONS}[{index}].status", status, allowed)
        if not both and type_ in {APPROVED, DENIED} and seen & ({APPROVED, DENIED} - {type_}):
            yield invalid(_CONDITIONS, type_, "Approved and Denied conditions are mutually exclusive")
        if type_ in seen:
            yield duplicate(f"{_CONDITIONS}[{index}].type", type_)
        seen.add(type_)


def _certificate_errors(csr: Object) -> Iterator[FieldError]:
    text = certificate_of(csr)
    if not text:
        return
    complaint = validate_issued_certificate(text)
    if complaint:
        yield invalid("status.certificate", "<certificate data>", complaint)


def validate_issued_certificate(text: str) -> str:
    """Return what is wrong with an issued certificate, empty when it is one or a chain of them."""
    try:
        found = list(blocks(base64.b64decode(text, validate=True)))
    except ValueError:
        return "must contain at least one CERTIFICATE PEM block"
    if not found:
        return "must contain at least one CERTIFICATE PEM block"
    for kind, der in found:
        if kind != CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(kind)}"
        try:
            parse_certificate(armour(der))
        except PkiError as refusal:
            return str(refusal)
    return ""


def _removal_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for type_ in _ONLY_TRUE:
        if len(conditions_named(new, type_)) < len(conditions_named(old, type_)):
            yield forbidden(_CONDITIONS, f"updates may not remove a condition of type {quote(type_)}")


def _approval_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for type_ in (APPROVED, DENIED):
        now, before = conditions_named(new, type_), conditions_named(old, type_)
        if len(now) > len(before):
            yield forbidden(_CONDITIONS, f"updates may not add a condition of type {quote(type_)}")
        elif len(now) == len(before) and now != before:
            yield forbidden(_CONDITIONS, f"updates may not modify a condition of type {quote(type_)}")


def _certificate_change_errors(new: Object, old: Object, *, may_set: bool) -> Iterator[FieldError]:
    if certificate_of(new) == certificate_of(old):
        return
    if not may_set:
        yield forbidden("status.certificate", "updates may not set certificate content")
    elif certificate_of(old):
        yield forbidden("status.certificate", "updates may not modify existing certificate content")
