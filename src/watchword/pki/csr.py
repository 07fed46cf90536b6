"""Certificate signing requests: built for our own keys, parsed from untrusted clients."""

from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from msgspec import Struct

from watchword.pki import subjects
from watchword.pki.errors import PARSE_ERRORS, InvalidCsr, refusing_deprecated_encodings
from watchword.pki.keys import CERTIFICATE_REQUEST, PrivateKey, PublicKey, first_block

MAXIMUM_REQUEST_BYTES = 32 * 1024
REQUEST_CACHE_SIZE = 128
_NO_NAMES = subjects.AlternativeNames()


class ParsedCsr(Struct, frozen=True):
    """Everything that a request asks for; none of it is granted yet.

    Duplicates are kept, so that a comparison with the expected value detects them.
    """

    common_name: str  # claimed by the requester
    organisations: tuple[str, ...]  # claimed by the requester
    organisational_units: tuple[str, ...]
    other_attributes: tuple[str, ...]  # dotted OIDs of every other part of the subject
    names: subjects.AlternativeNames
    extensions: tuple[str, ...]  # dotted OIDs of every extension asked for
    key: PublicKey
    signature_valid: bool  # the requester holds the private key

    @property
    def subject(self) -> subjects.CertificateSubject:
        return subjects.CertificateSubject(self.common_name, self.organisations)


def build_csr(
    key: PrivateKey, subject: subjects.CertificateSubject, names: subjects.AlternativeNames = _NO_NAMES
) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(subjects.encode_subject(subject))
    try:
        if names:
            builder = builder.add_extension(subjects.encode_alternative_names(names), critical=False)
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
    attributes = subjects.decode_name(request)
    common_names = subjects.values_of(attributes, subjects.COMMON_NAME)
    if len(common_names) > 1:
        raise InvalidCsr("the request claims more than one common name")
    known = {subjects.COMMON_NAME, subjects.ORGANISATION, subjects.ORGANISATIONAL_UNIT}
    return ParsedCsr(
        common_name="".join(common_names),
        organisations=subjects.values_of(attributes, subjects.ORGANISATION),
        organisational_units=subjects.values_of(attributes, subjects.ORGANISATIONAL_UNIT),
        other_attributes=tuple(oid for oid, _ in attributes if oid not in known),
        names=subjects.decode_alternative_names(request.extensions),
        extensions=tuple(extension.oid.dotted_string for extension in request.extensions),
        key=PublicKey.wrap(request.public_key()),
        signature_valid=_is_signed_by_its_key(request),
    )


def _is_signed_by_its_key(request: x509.CertificateSigningRequest) -> bool:
    try:
        return request.is_signature_valid
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
