"""Certificate signing requests: built for our own keys, parsed from untrusted clients."""

from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from msgspec import Struct

from watchword.pki.errors import PARSE_ERRORS, InvalidCsr, refusing_deprecated_encodings
from watchword.pki.keys import CERTIFICATE_REQUEST, PrivateKey, PublicKey, first_block
from watchword.pki.subjects import (
    COMMON_NAME,
    ORGANISATION,
    ORGANISATIONAL_UNIT,
    AlternativeNames,
    CertificateSubject,
    decode_alternative_names,
    decode_name,
    encode_alternative_names,
    encode_subject,
    values_of,
)

MAXIMUM_REQUEST_BYTES = 32 * 1024
REQUEST_CACHE_SIZE = 128
_NO_NAMES = AlternativeNames()


class ParsedCsr(Struct, frozen=True):
    """Everything that a request asks for; none of it is granted yet.

    Duplicates are kept, so that a comparison with the expected value detects them.
    """

    common_name: str  # claimed by the requester
    organisations: tuple[str, ...]  # claimed by the requester
    organisational_units: tuple[str, ...]
    other_attributes: tuple[str, ...]  # dotted OIDs of every other part of the subject
    names: AlternativeNames
    extensions: tuple[str, ...]  # dotted OIDs of every extension asked for
    key: PublicKey
    signature_valid: bool  # the requester holds the private key

    @property
    def subject(self) -> CertificateSubject:
        return CertificateSubject(self.common_name, self.organisations)


def build_csr(key: PrivateKey, subject: CertificateSubject, names: AlternativeNames = _NO_NAMES) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(encode_subject(subject))
    try:
        if names:
            builder = builder.add_extension(encode_alternative_names(names), critical=False)
        return builder.sign(key.handle, key.digest).public_bytes(serialization.Encoding.PEM)
    except ValueError as cause:
        raise InvalidCsr(f"the names cannot be written into a request: {cause}") from cause


def parse_csr(pem: bytes) -> ParsedCsr:
    """Read the first CERTIFICATE REQUEST block; raise `InvalidCsr` for anything else."""
    if len(pem) > MAXIMUM_REQUEST_BYTES:
        raise InvalidCsr(f"the request is larger than {MAXIMUM_REQUEST_BYTES // 1024} KiB")
    block = first_block(pem, CERTIFICATE_REQUEST)
    if block is None:
        raise InvalidCsr("the text does not begin with a PEM block of type CERTIFICATE REQUEST")
    return _read(block)


# A request does not change, and its approver, its signer and the API server read it several times each.
@lru_cache(maxsize=REQUEST_CACHE_SIZE)
def _read(der: bytes) -> ParsedCsr:
    try:
        with refusing_deprecated_encodings():
            return _facts(x509.load_der_x509_csr(der))
    except PARSE_ERRORS as cause:
        raise InvalidCsr(f"the certificate signing request cannot be read: {cause}") from cause


def _facts(request: x509.CertificateSigningRequest) -> ParsedCsr:
    attributes = decode_name(request)
    common_names = values_of(attributes, COMMON_NAME)
    if len(common_names) > 1:
        raise InvalidCsr("the request claims more than one common name")
    known = {COMMON_NAME, ORGANISATION, ORGANISATIONAL_UNIT}
    return ParsedCsr(
        common_name="".join(common_names),
        organisations=values_of(attributes, ORGANISATION),
        organisational_units=values_of(attributes, ORGANISATIONAL_UNIT),
        other_attributes=tuple(oid for oid, _ in attributes if oid not in known),
        names=_alternative_names(request.extensions),
        extensions=tuple(extension.oid.dotted_string for extension in request.extensions),
        key=PublicKey.wrap(request.public_key()),
        signature_valid=_is_signed_by_its_key(request),
    )


def _alternative_names(extensions: x509.Extensions) -> AlternativeNames:
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return _NO_NAMES
    return decode_alternative_names(found.value)


def _is_signed_by_its_key(request: x509.CertificateSigningRequest) -> bool:
    try:
        return request.is_signature_valid
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
