"""Certificate usages, by the names of certificates.k8s.io."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from watchword.pki.x509 import x509


class Usage(StrEnum):
    """The usages that are issued here; any other is refused."""

    DIGITAL_SIGNATURE = "digital signature"
    KEY_ENCIPHERMENT = "key encipherment"
    CLIENT_AUTH = "client auth"
    SERVER_AUTH = "server auth"


CLIENT_USAGES = (Usage.DIGITAL_SIGNATURE, Usage.KEY_ENCIPHERMENT, Usage.CLIENT_AUTH)
SERVING_USAGES = (Usage.DIGITAL_SIGNATURE, Usage.KEY_ENCIPHERMENT, Usage.SERVER_AUTH)

_EXTENDED = {
    Usage.CLIENT_AUTH: x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH,
    Usage.SERVER_AUTH: x509.oid.ExtendedKeyUsageOID.SERVER_AUTH,
}
_NAMES = {
    x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH.dotted_string: "client auth",
    x509.oid.ExtendedKeyUsageOID.SERVER_AUTH.dotted_string: "server auth",
    x509.oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE.dotted_string: "any",
}


def encode_key_usage(usages: Iterable[Usage], *, authority: bool = False) -> x509.KeyUsage:
    """Write the key usage extension."""
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


def encode_extended_usage(usages: Iterable[Usage]) -> x509.ExtendedKeyUsage | None:
    """Write the extended key usage extension; None when no extended usage was requested."""
    oids = [_EXTENDED[usage] for usage in usages if usage in _EXTENDED]
    return x509.ExtendedKeyUsage(oids) if oids else None


def decode_extended_usage(extension: x509.ExtendedKeyUsage) -> tuple[str, ...]:
    """Read the usages: by their Kubernetes names where they have one, as dotted OIDs otherwise."""
    return tuple(_NAMES.get(oid.dotted_string, oid.dotted_string) for oid in extension)
