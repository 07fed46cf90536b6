"""The signers of kubernetes.io: what each signs, and for how long."""

import base64
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339
from watchword.apiserver.model import User
from watchword.pki.authority import Authority, CertificateTemplate, choose_validity
from watchword.pki.certificates import Certificate
from watchword.pki.csr import ParsedCsr, parse_csr
from watchword.pki.errors import InvalidCsr
from watchword.pki.subjects import Usage

GROUP = "certificates.k8s.io"
PLURAL = "certificatesigningrequests"

KUBE_APISERVER_CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


def parse_pem_request(csr: Object) -> ParsedCsr:
    """Return the parsed PEM request; raise InvalidCsr when it cannot be parsed."""
    text = (csr.get("spec") or {}).get("request")
    try:
        pem = base64.b64decode(text if isinstance(text, str) else "", validate=True)
    except ValueError as cause:
        raise InvalidCsr("the request is not base64") from cause
    return parse_csr(pem)


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


def latest_update(rows: Iterable[Object]) -> datetime | None:
    """Return the newest lastUpdateTime of the conditions, None when none has one."""
    times = [parse_rfc3339(str(row.get("lastUpdateTime"))) for row in rows]
    return max((time for time in times if time is not None), default=None)


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


def choose_certificate_lifetime(asked_seconds: int | None, *, longest: timedelta) -> timedelta:
    """Decide the lifetime of a certificate: as requested, within the limits."""
    if asked_seconds is None:
        return longest
    return min(max(timedelta(seconds=asked_seconds), SHORTEST_LIFETIME), longest)


def sign_request(
    authority: Authority, identity: ParsedCsr, usages: tuple[str, ...], *, now: datetime, lifetime: timedelta
) -> Certificate:
    """Sign a validated request: subject, names and key as requested, every other extension dropped.

    Raises PkiError when the request is not signed by its own key, or the authority has expired.
    """
    validity = choose_validity(now=now, lifetime=lifetime, signer_not_after=authority.certificate.not_after)
    wanted = tuple(usage for usage in Usage if usage.value in usages)
    return authority.issue(CertificateTemplate(identity.key, identity.subject, validity, wanted, identity.names))
