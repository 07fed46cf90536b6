"""Signs approved certificate requests with an authority that is kept in a Secret."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta

from watchword.api.meta import Object
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate
from watchword.pki.csr import ParsedCsr, parse_csr
from watchword.pki.errors import CertificateRefused

CERTIFICATE, KEY = "tls.crt", "tls.key"


def read_authority(secret: Object | None, *, names: tuple[str, str] = (CERTIFICATE, KEY)) -> Authority:
    """Return the authority in a Secret; raise `PkiError` when it contains none."""
    data: Mapping[str, str] = (secret or {}).get("data") or {}
    try:
        pem, private = (base64.b64decode(data.get(name) or "", validate=True) for name in names)
    except (binascii.Error, ValueError) as cause:
        raise CertificateRefused("the Secret is not base64") from cause
    return Authority.from_pem(pem, private)


def parsed_request(csr: Object) -> ParsedCsr:
    """Return the content of a request that was validated."""
    return parse_csr(base64.b64decode(csr["spec"]["request"]))


def sign_request(
    csr: Object, asked: ParsedCsr, authority: Authority, *, longest: timedelta, now: datetime
) -> Certificate:
    """Return the certificate for a request that was validated: as long as it asks, and not longer than allowed."""
    seconds = (csr.get("spec") or {}).get("expirationSeconds")
    lifetime = min(timedelta(seconds=seconds), longest) if seconds else longest
    return authority.issue_client(asked.key, asked.subject, now=now, lifetime=lifetime)


def with_certificate(csr: Object, certificate: Certificate) -> Object:
    """Return the request with its certificate, to be sent to its status subresource."""
    return {**csr, "status": {**csr["status"], "certificate": base64.b64encode(certificate.pem).decode()}}
