"""A certificate authority: signs certificates with its own key."""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from msgspec import Struct

from watchword.pki import subjects
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import AuthorityExpired, CertificateRefused, KeyRefused
from watchword.pki.keys import PrivateKey, PublicKey

BACKDATE = timedelta(minutes=5)  # clocks of other machines may be behind
SHORT_LIFETIME = timedelta(hours=8)  # certificates shorter than this keep their full requested lifetime
CA_LIFETIME = timedelta(days=3650)
_NO_NAMES = subjects.AlternativeNames()


class Validity(Struct, frozen=True):
    """The period in which a certificate is valid."""

    not_before: datetime
    not_after: datetime


class CertificateTemplate(Struct, frozen=True):
    """A certificate to be issued: every field is decided before it is signed."""

    key: PublicKey
    subject: subjects.CertificateSubject
    validity: Validity
    usages: tuple[subjects.Usage, ...] = subjects.CLIENT_USAGES
    names: subjects.AlternativeNames = _NO_NAMES


class Authority(Struct, frozen=True):
    """A CA certificate and its key."""

    certificate: Certificate
    key: PrivateKey

    def __post_init__(self) -> None:
        if self.certificate.key != self.key.public:
            raise KeyRefused("the CA certificate and the CA key do not belong together")
        if not self.certificate.is_ca:
            raise CertificateRefused("the certificate is not that of a CA: its basic constraints say so")

    @classmethod
    def from_pem(cls, certificate: bytes, key: bytes) -> Authority:
        """Read the certificate and the key; raise `PkiError` when they are unreadable or not a pair."""
        return cls(parse_certificate(certificate), PrivateKey.from_pem(key))

    @classmethod
    def make(
        cls, common_name: str, *, now: datetime, lifetime: timedelta = CA_LIFETIME, key: PrivateKey | None = None
    ) -> Authority:
        """Make a self-signed CA; pass the old key to keep the pin across a renewal."""
        key = key or PrivateKey.generate()
        name = subjects.encode_subject(subjects.CertificateSubject(common_name))
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public.handle)
        builder = (
            _builder(key.public, Validity(now - BACKDATE, now + lifetime))
            .subject_name(name)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(subjects.encode_key_usage((), authority=True), critical=True)
            .add_extension(identifier, critical=False)
        )
        return cls(_sign(builder, key), key)

    def issue(self, leaf: CertificateTemplate) -> Certificate:
        issuer = self.certificate.handle
        builder = (
            _builder(leaf.key, leaf.validity)
            .subject_name(subjects.encode_subject(leaf.subject))
            .issuer_name(issuer.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public.handle), critical=False)
        )
        if {subjects.Usage.DIGITAL_SIGNATURE, subjects.Usage.KEY_ENCIPHERMENT} & set(leaf.usages):
            # An extension without any usage in it is malformed, and TLS libraries refuse the certificate.
            builder = builder.add_extension(subjects.encode_key_usage(leaf.usages), critical=True)
        extended = [oid for usage, oid in subjects.EXTENDED_USAGES.items() if usage in leaf.usages]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        try:
            if leaf.names:
                builder = builder.add_extension(subjects.encode_alternative_names(leaf.names), critical=False)
        except ValueError as cause:
            raise CertificateRefused(f"the names cannot be written into a certificate: {cause}") from cause
        return _sign(builder, self.key)

    def issue_serving(
        self, key: PublicKey, names: subjects.AlternativeNames, *, now: datetime, lifetime: timedelta
    ) -> Certificate:
        validity = choose_validity(now=now, lifetime=lifetime, signer_not_after=self.certificate.not_after)
        subject = subjects.CertificateSubject(next(iter((*names.dns, *names.ips)), "server"))
        return self.issue(CertificateTemplate(key, subject, validity, subjects.SERVING_USAGES, names))

    def issue_client(
        self, key: PublicKey, subject: subjects.CertificateSubject, *, now: datetime, lifetime: timedelta
    ) -> Certificate:
        validity = choose_validity(now=now, lifetime=lifetime, signer_not_after=self.certificate.not_after)
        return self.issue(CertificateTemplate(key, subject, validity))


def choose_validity(*, now: datetime, lifetime: timedelta, signer_not_after: datetime) -> Validity:
    """Decide the validity period by the rules of kube-controller-manager's signer.

    The start lies a little in the past. Long lifetimes are shortened by as much, short ones are not. No certificate
    outlives its signer. Raises `AuthorityExpired` when the signer's own certificate has expired.
    """
    if now >= signer_not_after:
        raise AuthorityExpired("the CA certificate has expired: rotate the CA before signing anything")
    ends = now + lifetime if lifetime < SHORT_LIFETIME else now + lifetime - BACKDATE
    return Validity(now - BACKDATE, min(ends, signer_not_after))


def _builder(key: PublicKey, validity: Validity) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .public_key(key.handle)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.not_before)
        .not_valid_after(validity.not_after)
    )


def _sign(builder: x509.CertificateBuilder, key: PrivateKey) -> Certificate:
    return parse_certificate(builder.sign(key.handle, key.digest).public_bytes(serialization.Encoding.DER))
