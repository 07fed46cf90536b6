"""Reads certificates: subject, validity and key."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.sensitive import HiddenFields
from watchword.api.time import bounded
from watchword.pki import subjects
from watchword.pki.errors import PARSE_ERRORS, CertificateRefused, ChainRefused, refusing_deprecated_encodings
from watchword.pki.keys import CERTIFICATE, Pin, PublicKey, armour, blocks, first_block

MAXIMUM_BUNDLE_CERTIFICATES = 512
CERTIFICATE_CACHE_SIZE = 512

_Ext = TypeVar("_Ext", bound=x509.ExtensionType)
MAXIMUM_DEPTH = 6
_MAXIMUM_INTERMEDIATES = 16
# The extensions that are enforced below; any other critical extension makes the certificate refused.
_UNDERSTOOD = {
    x509.BasicConstraints.oid,
    x509.KeyUsage.oid,
    x509.ExtendedKeyUsage.oid,
    x509.SubjectAlternativeName.oid,
    x509.AuthorityKeyIdentifier.oid,
    x509.SubjectKeyIdentifier.oid,
}


class Certificate(HiddenFields, frozen=True, dict=True):
    """The fields of one certificate. Reading it proves nothing: `chains` decides whether it is trusted."""

    hidden = ("der",)

    common_name: str
    organisations: tuple[str, ...]
    names: subjects.AlternativeNames
    not_before: datetime
    not_after: datetime
    serial: int
    is_ca: bool
    extended_usages: tuple[str, ...]
    key: PublicKey
    der: bytes

    @property
    def subject(self) -> subjects.CertificateSubject:
        return subjects.CertificateSubject(self.common_name, self.organisations)

    @property
    def issuer(self) -> str:
        return self.handle.issuer.rfc4514_string()

    @cached_property
    def pem(self) -> bytes:
        return armour(self.der)

    @property
    def pin(self) -> Pin:
        return Pin.of(self.key)

    @cached_property
    def handle(self) -> x509.Certificate:
        """The library's own object, for this package only."""
        return x509.load_der_x509_certificate(self.der)

    def is_current(self, now: datetime) -> bool:
        return self.not_before <= now <= self.not_after


def parse_certificate(data: bytes) -> Certificate:
    """Read one certificate, DER or the first PEM block; raise `CertificateRefused` for anything else."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise CertificateRefused("the text is far too large for a certificate: is this the right file?")
    der = first_block(data, CERTIFICATE) if data.lstrip()[:5] == b"-----" else data
    if der is None:
        raise CertificateRefused("the text does not begin with a PEM block of type CERTIFICATE")
    return _read(der)


def split_bundle(pem: bytes) -> tuple[Certificate, ...]:
    """Read every CERTIFICATE block; raise `CertificateRefused` when there is none or one is unreadable."""
    if len(pem) > MAX_DOCUMENT_BYTES:
        raise CertificateRefused("the text is far too large for a certificate bundle: is this the right file?")
    ders = [der for kind, der in blocks(pem) if kind == CERTIFICATE]
    if not ders or len(ders) > MAXIMUM_BUNDLE_CERTIFICATES or len(ders) != pem.count(b"-----BEGIN CERTIFICATE-----"):
        raise CertificateRefused("the text holds no certificates, or some that cannot be read")
    return tuple(_read(der) for der in ders)


def join_bundle(certificates: Iterable[Certificate]) -> bytes:
    return b"".join(dict.fromkeys(certificate.pem for certificate in certificates))


# Certificates are immutable, and an agent or server reads the same few of them many times.
@lru_cache(maxsize=CERTIFICATE_CACHE_SIZE)
def _read(der: bytes) -> Certificate:
    try:
        with refusing_deprecated_encodings():
            return _facts(x509.load_der_x509_certificate(der), der)
    except PARSE_ERRORS as cause:
        raise CertificateRefused(f"the certificate cannot be read: {cause}") from cause


def _facts(handle: x509.Certificate, der: bytes) -> Certificate:
    attributes = subjects.decode_name(handle)
    constraints = extension_of(handle, x509.BasicConstraints)
    extended = extension_of(handle, x509.ExtendedKeyUsage)
    return Certificate(
        common_name="".join(subjects.values_of(attributes, subjects.COMMON_NAME)[-1:]),  # the last one, as in Go
        organisations=subjects.values_of(attributes, subjects.ORGANISATION),
        names=subjects.decode_alternative_names(handle.extensions),
        not_before=bounded(handle.not_valid_before_utc),
        not_after=bounded(handle.not_valid_after_utc),
        serial=handle.serial_number,
        is_ca=constraints is not None and constraints.ca,
        extended_usages=subjects.decode_extended_usage(extended) if extended else (),
        key=PublicKey.wrap(handle.public_key()),
        der=der,
    )


def extension_of(handle: x509.Certificate, kind: type[_Ext]) -> _Ext | None:
    try:
        return handle.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def verify_chain(
    leaf: Certificate,
    roots: Sequence[Certificate],
    *,
    now: datetime,
    usage: subjects.Usage = subjects.Usage.CLIENT_AUTH,
    intermediates: Sequence[Certificate] = (),
) -> tuple[Certificate, ...]:
    """Return the chain from leaf to root, or raise `ChainRefused` with the reason.

    Names are not compared: a client certificate carries its identity in the subject and needs no SAN.
    """
    if len(intermediates) > _MAXIMUM_INTERMEDIATES:
        raise ChainRefused("the peer sent too many intermediate certificates")
    _check_member(leaf, usage, now)
    if leaf.der in {root.der for root in roots}:
        return (leaf,)
    chain = _extend((leaf,), roots, intermediates, usage, now)
    if chain is None:
        raise ChainRefused("no trusted authority signed the certificate: was it issued by another CA?")
    return chain


def _extend(
    chain: tuple[Certificate, ...],
    roots: Sequence[Certificate],
    intermediates: Sequence[Certificate],
    usage: subjects.Usage,
    now: datetime,
) -> tuple[Certificate, ...] | None:
    for root in roots:
        if _may_issue(root, chain, usage, now):
            return (*chain, root)
    if len(chain) >= MAXIMUM_DEPTH:
        return None
    for candidate in intermediates:
        if candidate not in chain and _may_issue(candidate, chain, usage, now):
            found = _extend((*chain, candidate), roots, intermediates, usage, now)
            if found is not None:
                return found
    return None


def _may_issue(issuer: Certificate, chain: tuple[Certificate, ...], usage: subjects.Usage, now: datetime) -> bool:
    if not issuer.is_ca or not _is_signed_by(chain[-1], issuer):
        return False
    constraints = extension_of(issuer.handle, x509.BasicConstraints)
    # Self-issued members do not count towards the path length; the leaf never does.
    below = sum(1 for member in chain[1:] if member.handle.subject != member.handle.issuer)
    if constraints is not None and constraints.path_length is not None and below > constraints.path_length:
        return False
    key_usage = extension_of(issuer.handle, x509.KeyUsage)
    if key_usage is not None and not key_usage.key_cert_sign:
        return False
    try:
        _check_member(issuer, usage, now)
    except ChainRefused:
        return False
    return True


def _check_member(certificate: Certificate, usage: subjects.Usage, now: datetime) -> None:
    if now < certificate.not_before:
        raise ChainRefused("the certificate is not valid yet: compare the clocks of both machines")
    if now > certificate.not_after:
        raise ChainRefused("the certificate has expired")
    # Without the extension every use is allowed (RFC 5280 4.2.1.12), as in Go.
    if certificate.extended_usages and not {usage.value, "any"} & set(certificate.extended_usages):
        raise ChainRefused(f"the certificate is not meant for {usage.value}")
    unknown = [e.oid for e in certificate.handle.extensions if e.critical and e.oid not in _UNDERSTOOD]
    if unknown:
        raise ChainRefused(
            f"the certificate has a critical extension that is not understood: {unknown[0].dotted_string}"
        )


def _is_signed_by(certificate: Certificate, issuer: Certificate) -> bool:
    try:
        certificate.handle.verify_directly_issued_by(issuer.handle)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
