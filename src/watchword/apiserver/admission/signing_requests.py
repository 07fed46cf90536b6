"""What may be written to a CertificateSigningRequest, by which endpoint and by whom."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.time import rfc3339
from watchword.apiserver.access.rbac import SUPERUSERS, Authorizer
from watchword.apiserver.kinds.metadata import dns_label, dns_subdomain
from watchword.apiserver.serving import errors, field_errors
from watchword.apiserver.serving.errors import quote
from watchword.apiserver.serving.model import (
    ApiError,
    FieldError,
    Now,
    Operation,
    RequestInfo,
    User,
    decode_base64,
    user_info,
)
from watchword.pki.authority import Authority, CertificateTemplate, choose_validity
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.csr import ParsedCsr, parse_csr
from watchword.pki.errors import InvalidCsr, PkiError
from watchword.pki.keys import CERTIFICATE, CERTIFICATE_REQUEST, armour, blocks, first_block
from watchword.pki.subjects import Usage

KUBE_APISERVER_CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


def parse_pem_request(csr: Object) -> ParsedCsr:
    """Return the parsed PEM request; raise InvalidCsr when it cannot be parsed."""
    return parse_csr(decode_base64((csr.get("spec") or {}).get("request")))


def conditions_named(csr: Object, type_: str) -> list[Object]:
    return [row for row in conditions_of(csr) if row.get("type") == type_]


def has_condition(csr: Object, *types: str) -> bool:
    """Whether any condition of these types is there; such conditions are only ever True."""
    return any(row.get("type") in types for row in conditions_of(csr))


def certificate_of(csr: Object) -> str:
    return (csr.get("status") or {}).get("certificate") or ""


def signer_of(csr: Object) -> str:
    return (csr.get("spec") or {}).get("signerName") or ""


def usages_of(csr: Object) -> tuple[str, ...]:
    return tuple((csr.get("spec") or {}).get("usages") or ())


def requester_of(csr: Object) -> User:
    """Return the requester, as the server recorded it on create; clients cannot write these fields."""
    spec = csr.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("username") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


SHORTEST_LIFETIME = timedelta(minutes=10)
LONGEST_LIFETIME = timedelta(days=365)
NODES_GROUP = "system:nodes"
NODE_PREFIX = "system:node:"

_SIGNATURE, _ENCIPHERMENT = Usage.DIGITAL_SIGNATURE.value, Usage.KEY_ENCIPHERMENT.value
_CLIENT, _SERVER = Usage.CLIENT_AUTH.value, Usage.SERVER_AUTH.value

RequestCheck = Callable[[ParsedCsr, tuple[str, ...]], str]
"""Says in one sentence why a request is not signed; empty when it is."""


def validate_client_request(identity: ParsedCsr, usages: tuple[str, ...]) -> str:
    """Validate a request for a client certificate of any user; the approver checked the subject."""
    del identity
    for usage in usages:
        if usage not in {_SIGNATURE, _ENCIPHERMENT, _CLIENT}:
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT in usages else f"missing required usage for client certificate: {_CLIENT}"


def validate_kubelet_client_request(identity: ParsedCsr, usages: tuple[str, ...]) -> str:
    """Validate a request for a node's client certificate: exactly the node's subject and nothing else."""
    if identity.organisations != (NODES_GROUP,):
        return "subject organization is not system:nodes"
    names = identity.names
    for found, kind in ((names.dns, "DNS"), (names.emails, "Email"), (names.ips, "IP"), (names.uris, "URI")):
        if found:
            return f"{kind} subjectAltNames are not allowed"
    if names.others:
        return "other subjectAltNames are not allowed"
    if not identity.common_name.startswith(NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _validate_exact_usages(usages, _CLIENT)


def validate_kubelet_serving_request(identity: ParsedCsr, usages: tuple[str, ...]) -> str:
    if identity.organisations != (NODES_GROUP,):
        return "subject organization is not system:nodes"
    names = identity.names
    if not names.dns and not names.ips:
        return "DNS or IP subjectAltName is required"
    for found, kind in ((names.emails, "Email"), (names.uris, "URI"), (names.others, "other")):
        if found:
            return f"{kind} subjectAltNames are not allowed"
    complaint = _validate_exact_usages(usages, _SERVER)
    if complaint:
        return complaint
    if not identity.common_name.startswith(NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return ""


def _validate_exact_usages(usages: tuple[str, ...], main: str) -> str:
    if set(usages) in ({_SIGNATURE, main}, {_SIGNATURE, _ENCIPHERMENT, main}):
        return ""
    return f"usages did not match [{' '.join(sorted((_SIGNATURE, _ENCIPHERMENT, main)))}]"


SIGNERS: Mapping[str, RequestCheck] = {
    KUBE_APISERVER_CLIENT: validate_client_request,
    KUBELET_CLIENT: validate_kubelet_client_request,
    KUBELET_SERVING: validate_kubelet_serving_request,
}
"""Every signer served here; requests for others are left to other programs."""


def choose_certificate_lifetime(asked_seconds: int | None) -> timedelta:
    """Decide the lifetime of a certificate: as requested, within the limits."""
    if asked_seconds is None:
        return LONGEST_LIFETIME
    return min(max(timedelta(seconds=asked_seconds), SHORTEST_LIFETIME), LONGEST_LIFETIME)


def sign_request(
    authority: Authority, identity: ParsedCsr, usages: tuple[str, ...], *, now: datetime, lifetime: timedelta
) -> Certificate:
    """Sign a validated request: subject, names and key as requested, every other extension dropped.

    Raises PkiError when the request is not signed by its own key, or the authority has expired.
    """
    validity = choose_validity(now=now, lifetime=lifetime, signer_not_after=authority.certificate.not_after)
    wanted = tuple(usage for usage in Usage if usage.value in usages)
    return authority.issue(CertificateTemplate(identity.key, identity.subject, validity, wanted, identity.names))


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
        if operation.kind.resource != CERTIFICATE_SIGNING_REQUESTS or operation.new is None:
            return
        if operation.verb == "create":
            _refuse_superusers(operation, operation.new)
        elif operation.old is not None:
            new, old = operation.new, operation.old
            is_signed = certificate_of(new) != certificate_of(old) or conditions_of(new) != conditions_of(old)
            if operation.subresource == "approval":
                self._require(operation, old, "approve")
            elif operation.subresource == "status" and is_signed:
                self._require(operation, old, "sign")

    def _require(self, operation: Operation, old: Object, verb: str) -> None:
        signer = signer_of(old)  # the stored one counts, whatever the update contains
        group = CERTIFICATE_SIGNING_REQUESTS.group
        asked = RequestInfo(verb, is_resource=True, group=group, version="*", resource="signers")
        names = (signer, f"{signer.partition('/')[0]}/*")
        if not any(self.authorizer.decide(operation.user, replace(asked, name=name)).allowed for name in names):
            raise _forbidden(operation, f"user not permitted to {verb} requests with signerName {quote(signer)}")


def _refuse_superusers(operation: Operation, csr: Object) -> None:
    if signer_of(csr) != KUBE_APISERVER_CLIENT:
        return
    try:
        identity = parse_pem_request(csr)
    except InvalidCsr as refusal:
        raise _forbidden(operation, f"failed to parse CSR: {refusal}") from refusal
    if SUPERUSERS in identity.organisations:
        raise _forbidden(operation, f"use of {KUBE_APISERVER_CLIENT} signer with {SUPERUSERS} group is not allowed")


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
        if operation.kind.resource != CERTIFICATE_SIGNING_REQUESTS or not operation.subresource:
            return
        if operation.new is None or operation.old is None:
            return
        now = rfc3339(self.now())
        rows = conditions_of(operation.old)
        known = {(row.get("type"), row.get("status")): row.get("lastTransitionTime") for row in rows}
        for row in conditions_of(operation.new):
            if not row.get("lastUpdateTime"):
                row["lastUpdateTime"] = now
            if not row.get("lastTransitionTime"):
                row["lastTransitionTime"] = known.get((row.get("type"), row.get("status"))) or now


def validate_signing_request(operation: Operation) -> list[FieldError]:
    new, old = operation.new, operation.old
    if new is None:
        return []
    found = [] if old is not None else [*_spec_errors(new)]  # the spec never changes after that
    found.extend(_condition_errors(new, old))
    if certificate_of(new) and (old is None or certificate_of(new) != certificate_of(old)):
        complaint = validate_issued_certificate(certificate_of(new))
        found += [field_errors.invalid("status.certificate", "<certificate data>", complaint)] if complaint else []
    if old is not None:
        found.extend(_change_errors(new, old, operation.subresource))
    return found


def _spec_errors(csr: Object) -> Iterator[FieldError]:
    spec = csr.get("spec") or {}
    if len(spec.get("request") or "") * 3 // 4 > MAX_REQUEST_BYTES:
        yield field_errors.too_long("spec.request", MAX_REQUEST_BYTES)
    else:
        complaint = validate_pem_request(csr)
        if complaint:
            yield field_errors.invalid("spec.request", spec.get("request"), complaint)
    for path, value in (("metadata", csr.get("metadata")), ("spec.extra", spec.get("extra"))):
        if len(orjson.dumps(value)) > MAX_REQUEST_BYTES:
            yield field_errors.too_long(path, MAX_REQUEST_BYTES)
    yield from _usage_errors(usages_of(csr))
    yield from _signer_errors(signer_of(csr))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield field_errors.invalid("spec.expirationSeconds", seconds, detail)


def _usage_errors(usages: tuple[str, ...]) -> Iterator[FieldError]:
    if not usages:
        yield field_errors.required("spec.usages")
    if len(usages) > len(USAGES):
        yield field_errors.too_many("spec.usages", len(usages), len(USAGES))
        return
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            yield field_errors.not_supported(f"spec.usages[{index}]", usage, sorted(USAGES))
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            yield field_errors.duplicate(f"spec.usages[{index}]", usage)


def validate_pem_request(csr: Object) -> str:
    """Return what is wrong with the PEM request, empty when its signature proves possession of the key."""
    try:
        identity = parse_pem_request(csr)
    except InvalidCsr as refusal:
        pem = decode_base64((csr.get("spec") or {}).get("request"))
        return str(refusal) if first_block(pem, CERTIFICATE_REQUEST) else "PEM block type must be CERTIFICATE REQUEST"
    return "" if identity.signature_valid else "the signature of the request is not made by its own key"


def _signer_errors(signer: str) -> Iterator[FieldError]:
    path = "spec.signerName"
    if signer == LEGACY_UNKNOWN:
        yield field_errors.invalid(path, signer, "the legacy signerName is not allowed via this API version")
        return
    if not signer:
        yield field_errors.required(path)
        return
    domain, slash, rest = signer.partition("/")
    if not slash or "/" in rest:
        yield field_errors.invalid(
            path, signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
        return
    yield from _label_errors(path, domain, dns_label)
    if "." not in domain:
        yield field_errors.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    yield from _label_errors(path, rest, dns_subdomain)
    if len(domain) > 253 or len(signer) > 571:
        yield field_errors.too_long(path, 571)


def _label_errors(path: str, text: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    for part in text.split("."):
        complaints = rule(part)
        if complaints:  # one bad label is enough: the others would have the same message
            return [
                field_errors.invalid(path, text, f"validating label {quote(part)}: {words}") for words in complaints
            ]
    return []


def _condition_errors(csr: Object, old: Object | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    both = old is not None and conditions_named(old, APPROVED) and conditions_named(old, DENIED)
    for index, row in enumerate(conditions_of(csr)):
        type_, status = row.get("type") or "", row.get("status") or ""
        allowed = ("True",) if type_ in _ONLY_TRUE else ("False", "True", "Unknown")
        if not type_:
            yield field_errors.required(f"{_CONDITIONS}[{index}].type")
        if not status:
            yield field_errors.required(f"{_CONDITIONS}[{index}].status")
        elif status not in allowed:
            yield field_errors.not_supported(f"{_CONDITIONS}[{index}].status", status, allowed)
        if not both and type_ in {APPROVED, DENIED} and seen & ({APPROVED, DENIED} - {type_}):
            yield field_errors.invalid(_CONDITIONS, type_, "Approved and Denied conditions are mutually exclusive")
        if type_ in seen:
            yield field_errors.duplicate(f"{_CONDITIONS}[{index}].type", type_)
        seen.add(type_)


def validate_issued_certificate(text: str) -> str:
    """Return what is wrong with an issued certificate, empty when it is one or a chain of them."""
    found = list(blocks(decode_base64(text)))
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


def _change_errors(new: Object, old: Object, subresource: str) -> Iterator[FieldError]:
    for type_ in _ONLY_TRUE:
        if len(conditions_named(new, type_)) < len(conditions_named(old, type_)):
            yield field_errors.forbidden(_CONDITIONS, f"updates may not remove a condition of type {quote(type_)}")
    for type_ in (APPROVED, DENIED) if subresource != "approval" else ():
        now, before = conditions_named(new, type_), conditions_named(old, type_)
        if len(now) > len(before):
            yield field_errors.forbidden(_CONDITIONS, f"updates may not add a condition of type {quote(type_)}")
        elif len(now) == len(before) and now != before:
            yield field_errors.forbidden(_CONDITIONS, f"updates may not modify a condition of type {quote(type_)}")
    if certificate_of(new) != certificate_of(old):
        if subresource != "status":
            yield field_errors.forbidden("status.certificate", "updates may not set certificate content")
        elif certificate_of(old):
            yield field_errors.forbidden("status.certificate", "updates may not modify existing certificate content")
