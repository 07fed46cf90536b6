from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.pki.csr import MAXIMUM_REQUEST_BYTES, build_csr, parse_csr
from watchword.pki.errors import InvalidCsr
from watchword.pki.keys import CERTIFICATE_REQUEST, PrivateKey, armour, first_block
from watchword.pki.subjects import AlternativeNames, CertificateSubject

KEY = PrivateKey.generate()
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=90)


@given(common_name=WORDS, organisations=st.lists(WORDS, max_size=4, unique=True))
@settings(max_examples=40)
def test_a_request_is_read_back_as_it_was_built(common_name: str, organisations: list[str]) -> None:
    asked = parse_csr(build_csr(KEY, CertificateSubject(common_name, tuple(organisations))))

    assert (asked.common_name, set(asked.organisations)) == (common_name, set(organisations))
    assert (asked.key, asked.signature_valid, asked.extensions) == (KEY.public, True, ())


def test_alternative_names_are_read_back() -> None:
    names = AlternativeNames(("a.example", "*.b"), ("10.0.0.1", "::1"), ("spiffe://x/y",), ("a@b.example",))
    assert parse_csr(build_csr(KEY, CertificateSubject("n"), names)).names == names


def test_hosts_are_sorted_into_names_and_addresses() -> None:
    assert AlternativeNames.for_hosts(["hub", "127.0.0.1", "::1"]) == AlternativeNames(("hub",), ("127.0.0.1", "::1"))


def _signed(builder: x509.CertificateSigningRequestBuilder) -> bytes:
    handle = KEY.handle
    return builder.sign(handle, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in pairs])


def test_every_unusual_part_of_a_request_is_parsed() -> None:
    name = _name(
        (NameOID.COMMON_NAME, "n"),
        (NameOID.ORGANIZATION_NAME, "g"),
        (NameOID.ORGANIZATION_NAME, "g"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "unit"),
        (NameOID.COUNTRY_NAME, "CH"),
    )
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    request = x509.CertificateSigningRequestBuilder().subject_name(name).add_extension(constraints, critical=True)

    asked = parse_csr(_signed(request))

    assert asked.organisations == ("g", "g")
    assert asked.organisational_units == ("unit",)
    assert asked.other_attributes == (NameOID.COUNTRY_NAME.dotted_string,)
    assert asked.extensions == (x509.BasicConstraints.oid.dotted_string,)


def test_a_request_signed_by_another_key_is_seen_as_such() -> None:
    der = first_block(build_csr(KEY, CertificateSubject("n")), CERTIFICATE_REQUEST)
    assert der is not None
    broken = der[:-3] + bytes([der[-3] ^ 1]) + der[-2:]
    assert not parse_csr(armour(broken, CERTIFICATE_REQUEST)).signature_valid


TWO_NAMES = _name((NameOID.COMMON_NAME, "a"), (NameOID.COMMON_NAME, "b"))


@pytest.mark.parametrize(
    ("pem", "complaint"),
    [
        pytest.param(b"", "does not begin", id="nothing"),
        pytest.param(KEY.public.pem, "does not begin", id="another block first"),
        pytest.param(armour(b"\x30\x03\x02\x01\x01", CERTIFICATE_REQUEST), "cannot be read", id="not a request"),
        pytest.param(b"-" * (MAXIMUM_REQUEST_BYTES + 1), "larger than", id="oversized"),
        pytest.param(_signed(x509.CertificateSigningRequestBuilder().subject_name(TWO_NAMES)), "more than one", id="2"),
    ],
)
def test_an_unusable_request_is_refused(pem: bytes, complaint: str) -> None:
    with pytest.raises(InvalidCsr, match=complaint):
        parse_csr(pem)


@given(cut=st.integers(0, 200), flip=st.integers(0, 1500), mask=st.integers(1, 255))
@settings(max_examples=60)
def test_a_damaged_request_is_read_or_refused_but_never_breaks(cut: int, flip: int, mask: int) -> None:
    der = first_block(build_csr(KEY, CertificateSubject("n", ("o",)), AlternativeNames(("a",))), CERTIFICATE_REQUEST)
    assert der is not None
    damaged = bytearray(der[: len(der) - cut % 3])
    damaged[flip % len(damaged)] ^= mask
    try:
        parse_csr(armour(bytes(damaged), CERTIFICATE_REQUEST))
    except InvalidCsr:
        return
