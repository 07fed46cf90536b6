from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.validation import LONGEST_SPAN
from watchword.pki.authority import Authority, CertificateTemplate, Validity, choose_validity
from watchword.pki.certificates import join_bundle, parse_certificate, split_bundle
from watchword.pki.errors import AuthorityExpired, CertificateRefused, KeyRefused
from watchword.pki.keys import PrivateKey, armour
from watchword.pki.subjects import AlternativeNames, CertificateSubject, Usage

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CA = Authority.make("a-ca", now=NOW)
KEY = PrivateKey.generate()


@pytest.mark.parametrize(
    ("lifetime", "signer_not_after", "expected"),
    [
        pytest.param(HOUR, NOW + 9 * HOUR, NOW + HOUR, id="a short life is given in full"),
        pytest.param(
            8 * HOUR, NOW + 9 * HOUR, NOW + 8 * HOUR - timedelta(minutes=5), id="a long one pays the backdate"
        ),
        pytest.param(24 * HOUR, NOW + HOUR, NOW + HOUR, id="nothing outlives the signer"),
    ],
)
def test_choose_validity(lifetime: timedelta, signer_not_after: datetime, expected: datetime) -> None:
    chosen = choose_validity(now=NOW, lifetime=lifetime, signer_not_after=signer_not_after)
    assert chosen == Validity(NOW - timedelta(minutes=5), expected)


def test_an_expired_authority_signs_nothing() -> None:
    with pytest.raises(AuthorityExpired, match="rotate the CA"):
        choose_validity(now=NOW, lifetime=HOUR, signer_not_after=NOW)


def test_client_certificate_has_the_specified_fields() -> None:
    subject = CertificateSubject("system:bootstrap:x", ("g2", "g1"))

    issued = CA.issue_client(KEY.public, subject, now=NOW, lifetime=HOUR)

    assert (issued.common_name, set(issued.organisations)) == ("system:bootstrap:x", {"g1", "g2"})
    assert (issued.key, issued.is_ca, issued.extended_usages) == (KEY.public, False, ("client auth",))
    assert (issued.not_before, issued.not_after) == (NOW - timedelta(minutes=5), NOW + HOUR)
    assert not issued.names
    assert issued.is_current(NOW)
    assert not issued.is_current(NOW + HOUR + timedelta(seconds=1))


def test_serving_certificate_contains_the_servers_names() -> None:
    names = AlternativeNames.for_hosts(["hub.example", "127.0.0.1"])
    issued = CA.issue_serving(KEY.public, names, now=NOW, lifetime=HOUR)
    assert (issued.names, issued.extended_usages, issued.common_name) == (names, ("server auth",), "hub.example")


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param(datetime(1950, 1, 1, tzinfo=UTC), id="first instant that is written"),
        pytest.param(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), id="no expiry by RFC 5280"),
    ],
)
def test_centuries_can_be_added_to_every_instant_of_a_certificate(instant: datetime) -> None:
    template = CertificateTemplate(KEY.public, CertificateSubject("x"), Validity(instant, instant))

    read = CA.issue(template)

    assert read.not_before == read.not_after == min(instant, datetime(9000, 1, 1, tzinfo=UTC))
    assert read.not_before - LONGEST_SPAN < read.not_after + LONGEST_SPAN


def test_a_renewed_authority_keeps_its_pin() -> None:
    renewed = Authority.make("a-ca", now=NOW + HOUR, key=CA.key)
    assert renewed.certificate.pin == CA.certificate.pin
    assert renewed.certificate.der != CA.certificate.der


def test_an_authority_is_read_back_from_its_files() -> None:
    again = Authority.from_pem(CA.certificate.pem, CA.key.pem.reveal())
    assert again.certificate == CA.certificate


def test_certificate_and_key_of_different_authorities_are_refused() -> None:
    with pytest.raises(KeyRefused, match="do not belong together"):
        Authority.from_pem(CA.certificate.pem, KEY.pem.reveal())


def test_a_leaf_cannot_pose_as_an_authority() -> None:
    leaf = CA.issue_client(KEY.public, CertificateSubject("n"), now=NOW, lifetime=HOUR)
    with pytest.raises(CertificateRefused, match="not that of a CA"):
        Authority(leaf, KEY)


def test_a_bundle_is_split_and_joined_without_doubles() -> None:
    other = Authority.make("b-ca", now=NOW)
    bundle = join_bundle([CA.certificate, other.certificate, CA.certificate])
    assert split_bundle(b"# a comment\n" + bundle) == (CA.certificate, other.certificate)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"hello", id="a word"),
        pytest.param(KEY.public.pem, id="a key"),
        pytest.param(armour(b"\x30\x00"), id="an empty sequence"),
        pytest.param(CA.certificate.pem + armour(b"\x30\x00"), id="a good one and a bad one"),
        pytest.param(CA.certificate.pem + b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----", id="torn"),
        pytest.param(b"x" * 2_000_000, id="oversized"),
    ],
)
def test_what_is_no_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(CertificateRefused):
        split_bundle(data)


@given(flip=st.integers(0, 2000), mask=st.integers(1, 255))
@settings(max_examples=60)
def test_a_damaged_certificate_is_read_or_refused_but_never_breaks(flip: int, mask: int) -> None:
    damaged = bytearray(CA.certificate.der)
    damaged[flip % len(damaged)] ^= mask
    try:
        parse_certificate(bytes(damaged))
    except CertificateRefused:
        return


def test_names_that_cannot_be_written_are_refused() -> None:
    leaf = CertificateTemplate(
        KEY.public, CertificateSubject("n"), Validity(NOW, NOW + HOUR), (Usage.SERVER_AUTH,), AlternativeNames(("ü",))
    )
    with pytest.raises(CertificateRefused, match="cannot be written"):
        CA.issue(leaf)


def test_a_certificate_for_client_auth_alone_has_no_empty_key_usage() -> None:
    leaf = CertificateTemplate(KEY.public, CertificateSubject("bob"), Validity(NOW, NOW + HOUR), (Usage.CLIENT_AUTH,))

    issued = CA.issue(leaf)

    assert "2.5.29.15" not in {extension.oid.dotted_string for extension in issued.handle.extensions}
