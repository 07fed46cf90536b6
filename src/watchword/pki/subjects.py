"""The subject of a certificate: common name, organisations, alternative names."""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Iterable
from enum import StrEnum

from cryptography import x509
from msgspec import Struct

COMMON_NAME = x509.NameOID.COMMON_NAME.dotted_string
ORGANISATION = x509.NameOID.ORGANIZATION_NAME.dotted_string
ORGANISATIONAL_UNIT = x509.NameOID.ORGANIZATIONAL_UNIT_NAME.dotted_string


class CertificateSubject(Struct, frozen=True):
    """A user and its groups, as Kubernetes reads them from CN and O."""

    common_name: str
    organisations: tuple[str, ...] = ()


class AlternativeNames(Struct, frozen=True):
    """The contents of a SAN extension; `others` holds the names of the types that are not modelled."""

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dns or self.ips or self.uris or self.emails or self.others)

    @classmethod
    def for_hosts(cls, hosts: Iterable[str]) -> AlternativeNames:
        dns: list[str] = []
        ips: list[str] = []
        for host in hosts:
            (ips if _is_ip(host) else dns).append(host)
        return cls(tuple(dns), tuple(ips))


def encode_subject(subject: CertificateSubject) -> x509.Name:
    """Write a subject the way Go does: one set of organisations, then the common name."""
    with _any_length():
        parts = []
        organisations = list(dict.fromkeys(subject.organisations))
        if organisations:
            attributes = [_attribute(x509.NameOID.ORGANIZATION_NAME, value) for value in organisations]
            parts.append(x509.RelativeDistinguishedName(attributes))
        parts.append(x509.RelativeDistinguishedName([_attribute(x509.NameOID.COMMON_NAME, subject.common_name)]))
        return x509.Name(parts)


def decode_name(name_of: x509.CertificateSigningRequest | x509.Certificate) -> tuple[tuple[str, str], ...]:
    """Return every attribute of the subject as (dotted OID, value), in the order written."""
    with _any_length():
        values = [(a.oid.dotted_string, a.value) for a in name_of.subject]
        return tuple((oid, value if isinstance(value, str) else value.hex()) for oid, value in values)


def values_of(attributes: Iterable[tuple[str, str]], oid: str) -> tuple[str, ...]:
    return tuple(value for key, value in attributes if key == oid)


def encode_alternative_names(names: AlternativeNames) -> x509.SubjectAlternativeName:
    """Write the names; `others` cannot be written and must be empty."""
    return x509.SubjectAlternativeName(
        [
            *(x509.DNSName(value) for value in names.dns),
            *(x509.IPAddress(ipaddress.ip_address(value)) for value in names.ips),
            *(x509.UniformResourceIdentifier(value) for value in names.uris),
            *(x509.RFC822Name(value) for value in names.emails),
        ]
    )


def decode_alternative_names(extensions: x509.Extensions) -> AlternativeNames:
    try:
        extension = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return AlternativeNames()
    modelled = (x509.DNSName, x509.IPAddress, x509.UniformResourceIdentifier, x509.RFC822Name)
    return AlternativeNames(
        dns=tuple(extension.get_values_for_type(x509.DNSName)),
        ips=tuple(str(value) for value in extension.get_values_for_type(x509.IPAddress)),
        uris=tuple(extension.get_values_for_type(x509.UniformResourceIdentifier)),
        emails=tuple(extension.get_values_for_type(x509.RFC822Name)),
        others=tuple(type(name).__name__ for name in extension if not isinstance(name, modelled)),
    )


def _attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    # Names of clusters and add-ons make common names longer than X.520's 64 characters;
    # Kubernetes and Go accept that, so the length check is the only check that is left out.
    return x509.NameAttribute(oid, value, _validate=False)


class _any_length(warnings.catch_warnings):  # noqa: N801 - reads as a statement where it is used
    """Suppress the library's warning about long common names."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Usage(StrEnum):
    """The usages that are issued here; any other is refused."""

    DIGITAL_SIGNATURE = "digital signature"
    KEY_ENCIPHERMENT = "key encipherment"
    CLIENT_AUTH = "client auth"
    SERVER_AUTH = "server auth"


CLIENT_USAGES = (Usage.DIGITAL_SIGNATURE, Usage.KEY_ENCIPHERMENT, Usage.CLIENT_AUTH)
SERVING_USAGES = (Usage.DIGITAL_SIGNATURE, Usage.KEY_ENCIPHERMENT, Usage.SERVER_AUTH)

EXTENDED_USAGES = {
    Usage.CLIENT_AUTH: x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH,
    Usage.SERVER_AUTH: x509.oid.ExtendedKeyUsageOID.SERVER_AUTH,
}


def encode_key_usage(usages: Iterable[Usage], *, authority: bool = False) -> x509.KeyUsage:
    wanted = set(usages)
    return x509.KeyUsage(
        digital_signature=authority or Usage.DIGITAL_SIGNATURE in wanted,
        key_encipherment=authority or Usage.KEY_ENCIPHERMENT in wanted,
        key_cert_sign=authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def decode_extended_usage(extension: x509.ExtendedKeyUsage) -> tuple[str, ...]:
    """Read the usages: by their Kubernetes names where they have one, as dotted OIDs otherwise."""
    names = {oid: usage.value for usage, oid in EXTENDED_USAGES.items()}
    names[x509.oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE] = "any"
    return tuple(names.get(oid, oid.dotted_string) for oid in extension)
