from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from msgspec.structs import force_setattr

from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate, parse_certificate, verify_chain
from watchword.pki.errors import ChainRefused
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject, Usage, encode_subject

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
CA = Authority.make("a-ca", now=NOW)
NAMESAKE = Authority.make("a-ca", now=NOW)
KEY = PrivateKey.generate()
LEAF = CA.issue_client(KEY.public, CertificateSubject("n", ("g",)), now=NOW, lifetime=DAY)
SERVING = CA.issue_serving(KEY.public, AlternativeNames(("hub",)), now=NOW, lifetime=DAY)


def _intermediate(
    issuer: Authority, *, ca: bool = True, path_length: int | None = None, critical: x509.ExtensionType | None = None
) -> Authority:
    key = PrivateKey.generate()
    builder = (
        x509.CertificateBuilder()
        .subject_name(encode_subject(CertificateSubject(f"middle-{key.public.thumbprint[:6]}")))
        .issuer_name(issuer.certificate.handle.subject)
        .public_key(key.public.handle)
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
    )
    if critical is not None:
        builder = builder.add_extension(critical, critical=True)
    der = builder.sign(issuer.key.handle, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    made = copy(issuer)  # a leaf that poses as a CA cannot be made through the front door
    force_setattr(made, "certificate", parse_certificate(der))
    force_setattr(made, "key", key)
    return made


def _leaf_of(issuer: Authority) -> Certificate:
    return issuer.issue_client(KEY.public, CertificateSubject("n"), now=NOW, lifetime=DAY / 24)


MIDDLE = _intermediate(CA)
NO_CA = _intermediate(CA, ca=False)
NARROW = _intermediate(CA, path_length=0)
BELOW_NARROW = _intermediate(NARROW)
ODD = _intermediate(CA, critical=x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"))


@pytest.mark.parametrize(
    ("leaf", "roots", "middle", "now", "complaint"),
    [
        pytest.param(LEAF, [], (), NOW, "no trusted authority", id="no roots"),
        pytest.param(LEAF, [NAMESAKE], (), NOW, "no trusted authority", id="same name, other key"),
        pytest.param(LEAF, [CA], (), NOW + 2 * DAY, "has expired", id="expired"),
        pytest.param(LEAF, [CA], (), NOW - DAY, "not valid yet", id="not yet valid"),
        pytest.param(SERVING, [CA], (), NOW, "not meant for client auth", id="a server's certificate"),
        pytest.param(_leaf_of(MIDDLE), [CA], (), NOW, "no trusted authority", id="missing intermediate"),
        pytest.param(_leaf_of(NO_CA), [CA], (NO_CA,), NOW, "no trusted authority", id="issued by a leaf"),
        pytest.param(
            _leaf_of(BELOW_NARROW), [CA], (BELOW_NARROW, NARROW), NOW, "no trusted authority", id="path too long"
        ),
        pytest.param(_leaf_of(ODD), [CA], (ODD,), NOW, "no trusted authority", id="unknown critical extension"),
        pytest.param(LEAF, [CA], (CA,) * 17, NOW, "too many", id="too many intermediates"),
    ],
)
def test_certificate_of_an_untrusted_authority_is_refused(
    leaf: Certificate, roots: list[Authority], middle: tuple[Authority, ...], now: datetime, complaint: str
) -> None:
    with pytest.raises(ChainRefused, match=complaint):
        verify_chain(leaf, [r.certificate for r in roots], now=now, intermediates=[m.certificate for m in middle])


def test_client_certificate_without_alternative_names_is_accepted() -> None:
    assert verify_chain(LEAF, [NAMESAKE.certificate, CA.certificate], now=NOW) == (LEAF, CA.certificate)


def test_a_chain_through_intermediates_is_found_in_any_order() -> None:
    lower = _intermediate(MIDDLE)
    leaf = _leaf_of(lower)
    members = [lower.certificate, MIDDLE.certificate]
    expected = (leaf, lower.certificate, MIDDLE.certificate, CA.certificate)
    for order in (members, members[::-1]):
        assert verify_chain(leaf, [CA.certificate], now=NOW, intermediates=order) == expected


def test_serving_certificate_is_accepted_for_server_auth() -> None:
    assert verify_chain(SERVING, [CA.certificate], now=NOW, usage=Usage.SERVER_AUTH)[-1] == CA.certificate
