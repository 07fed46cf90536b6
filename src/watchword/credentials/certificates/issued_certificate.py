"""Checks a certificate that was issued: it must be exactly the one that was requested."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from watchword.api.meta import Object
from watchword.api.validation import parse_seconds
from watchword.kube.files import read_small_file, write_private_file
from watchword.pki.authority import BACKDATE, Authority
from watchword.pki.certificates import Certificate, join_bundle, split_bundle, verify_chain
from watchword.pki.csr import ParsedCsr, parse_csr
from watchword.pki.errors import CertificateRefused, ChainRefused
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject


class IssuedCertificate(Struct, frozen=True):
    """A key and the certificate chain for it, leaf first."""

    key: PrivateKey
    chain: tuple[Certificate, ...]

    @classmethod
    def from_status(cls, key: PrivateKey, encoded: str) -> IssuedCertificate:
        """Read the certificate of a request's status; raise `CertificateRefused` when it cannot be read."""
        try:
            return cls(key, split_bundle(base64.b64decode(encoded, validate=True)))
        except (binascii.Error, ValueError) as cause:
            raise CertificateRefused(f"the certificate is not base64: {cause}") from cause

    @property
    def certificate(self) -> Certificate:
        return self.chain[0]

    @property
    def chain_pem(self) -> bytes:
        return join_bundle(self.chain)


def validate_issued_certificate(
    issued: IssuedCertificate,
    wanted: CertificateSubject,
    *,
    now: datetime,
    roots: tuple[Certificate, ...] = (),
    lifetime: timedelta | None = None,
) -> str:
    leaf = issued.certificate
    same_name = leaf.common_name == wanted.common_name
    same_groups = sorted(leaf.organisations) == sorted(set(wanted.organisations))
    too_long = lifetime is not None and leaf.not_after - max(leaf.not_before, now) > lifetime + BACKDATE
    objections = (
        (not (same_name and same_groups), "it is for another subject"),
        (now >= leaf.not_after, "it has expired"),
        (now < leaf.not_before, "it is not valid yet: compare the clocks"),
        (too_long, "it is valid for longer than was requested"),
    )
    found = next((objection for wrong, objection in objections if wrong), "")
    return validate_client_certificate(issued) or found or (_validate_chain(issued, roots, now) if roots else "")


def validate_client_certificate(issued: IssuedCertificate) -> str:
    """Return why a certificate is none of a client with this key, whatever its subject; empty when it is."""
    leaf = issued.certificate
    if leaf.key != issued.key.public:
        return "it is for another key"
    if leaf.is_ca:
        return "it is the certificate of an authority"
    return "" if "client auth" in leaf.extended_usages else "it is not for client authentication"


def _validate_chain(issued: IssuedCertificate, roots: tuple[Certificate, ...], now: datetime) -> str:
    try:
        verify_chain(issued.certificate, roots, now=now, intermediates=issued.chain[1:])
    except ChainRefused as refusal:
        return str(refusal)
    return ""


def load_or_create_key(path: Path) -> PrivateKey:
    """Return the key in a file, or create one there first: a second try must not look like a second machine."""
    if path.exists():
        return PrivateKey.from_pem(read_small_file(path, "key file"))
    key = PrivateKey.generate()
    write_private_file(path, key.pem.reveal())
    return key


CERTIFICATE, KEY = "tls.crt", "tls.key"


def read_authority(secret: Object | None, *, names: tuple[str, str] = (CERTIFICATE, KEY)) -> Authority:
    data: Mapping[str, str] = (secret or {}).get("data") or {}
    try:
        pem, private = (base64.b64decode(data.get(name) or "", validate=True) for name in names)
    except (binascii.Error, ValueError) as cause:
        raise CertificateRefused("the Secret is not base64") from cause
    return Authority.from_pem(pem, private)


def parsed_request(csr: Object) -> ParsedCsr:
    return parse_csr(base64.b64decode(csr["spec"]["request"]))


def sign_request(
    csr: Object, asked: ParsedCsr, authority: Authority, *, longest: timedelta, now: datetime
) -> Certificate:
    """Return the certificate for a request that was validated: as long as it asks, and not longer than allowed."""
    lifetime = parse_seconds((csr.get("spec") or {}).get("expirationSeconds") or None, longest=longest) or longest
    return authority.issue_client(asked.key, asked.subject, now=now, lifetime=lifetime)


def with_certificate(csr: Object, certificate: Certificate) -> Object:
    return {**csr, "status": {**csr["status"], "certificate": base64.b64encode(certificate.pem).decode()}}
