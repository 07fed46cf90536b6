"""Builds certificate signing requests: the same key and spec always give the same request."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.pki.csr import build_csr, parse_csr
from watchword.pki.errors import PkiError
from watchword.pki.keys import KeyType, PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject, Usage


class CertificateError(Exception):
    """Base of everything this package raises."""


class CertificateRequestRefused(CertificateError):
    """The request is one that the hub never approves; the message contains the reason."""


class CertificateSpec(Struct, frozen=True):
    """Which certificate to request; `labels` help approvers to find the request."""

    subject: CertificateSubject
    signer: str = KUBE_CLIENT_SIGNER
    lifetime: timedelta | None = None  # None: the signer decides
    name: str = ""  # empty: derived from key and spec
    name_prefix: str = "watchword-"
    usages: tuple[Usage, ...] = ()  # empty: those that the type of the key needs
    names: AlternativeNames = field(default_factory=AlternativeNames)
    labels: Mapping[str, str] = field(default_factory=dict)


def certificate_request_manifest(certificate_spec: CertificateSpec, key: PrivateKey) -> Object:
    """Return the CertificateSigningRequest; the same spec and key always give the same name."""
    usages = certificate_spec.usages or choose_usages(key)
    spec: Object = {
        "request": base64.b64encode(build_csr(key, certificate_spec.subject, certificate_spec.names)).decode(),
        "signerName": certificate_spec.signer,
        "usages": [str(usage) for usage in usages],
    }
    if certificate_spec.lifetime is not None:
        spec["expirationSeconds"] = int(certificate_spec.lifetime.total_seconds())
    return CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster(certificate_spec.name or choose_request_name(certificate_spec, key)),
        metadata={"labels": dict(certificate_spec.labels)} if certificate_spec.labels else {},
        spec=spec,
    )


def choose_usages(key: PrivateKey) -> tuple[Usage, ...]:
    """Return the usages of a client certificate; only RSA keys encipher other keys."""
    encipherment = (Usage.KEY_ENCIPHERMENT,) if key.public.type == KeyType.RSA else ()
    return (Usage.DIGITAL_SIGNATURE, *encipherment, Usage.CLIENT_AUTH)


def choose_request_name(certificate_spec: CertificateSpec, key: PrivateKey) -> str:
    parts = [
        key.public.thumbprint,
        certificate_spec.signer,
        certificate_spec.subject.common_name,
        *sorted(certificate_spec.subject.organisations),
        str(certificate_spec.lifetime),
    ]
    return certificate_spec.name_prefix + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def is_same_request(present: Object, ours: Object) -> bool:
    """Whether a stored request has the same content and key; the server adds the rest."""
    theirs, wanted = present.get("spec") or {}, ours["spec"]
    if any(theirs.get(field) != wanted.get(field) for field in ("signerName", "usages", "expirationSeconds")):
        return False
    try:
        asked = parse_csr(base64.b64decode(str(theirs.get("request") or ""), validate=True))
        mine = parse_csr(base64.b64decode(wanted["request"]))
    except (PkiError, ValueError):
        return False
    return (asked.key, asked.subject) == (mine.key, mine.subject)
