"""A certificate that is not exactly the one that was requested is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchword.credentials.certificates.issued_certificate import (
    IssuedCertificate,
    load_or_create_key,
    validate_issued_certificate,
)
from watchword.credentials.certificates.requests import CertificateSpec
from watchword.pki.authority import Authority, CertificateTemplate, Validity
from watchword.pki.certificates import Certificate
from watchword.pki.errors import KeyRefused
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import SERVING_USAGES, CertificateSubject

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CA, OTHER_CA = Authority.make("ca", now=NOW), Authority.make("ca", now=NOW)
KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
WHO = CertificateSubject("system:a:b", ("system:a", "system:c"))
WISH = CertificateSpec(WHO, lifetime=HOUR)


def issue(
    subject: CertificateSubject = WHO, key: PrivateKey = KEY, by: Authority = CA, life: timedelta = HOUR
) -> Certificate:
    return by.issue_client(key.public, subject, now=NOW, lifetime=life)


SERVING = CA.issue(CertificateTemplate(KEY.public, WHO, Validity(NOW, NOW + HOUR), SERVING_USAGES))
ITSELF = Authority.make("system:a:b", now=NOW, key=KEY).certificate


@pytest.mark.parametrize(
    ("certificate", "complaint"),
    [
        pytest.param(issue(key=OTHER), "another key", id="another key"),
        pytest.param(issue(CertificateSubject("system:a:x", WHO.organisations)), "another subject", id="another name"),
        pytest.param(issue(CertificateSubject("system:a:b", ("system:a",))), "another subject", id="a group less"),
        pytest.param(
            issue(CertificateSubject("system:a:b", (*WHO.organisations, "system:masters"))),
            "another subject",
            id="a gift",
        ),
        pytest.param(SERVING, "not for client authentication", id="a server's certificate"),
        pytest.param(issue(life=24 * HOUR), "longer than", id="too long a life"),
        pytest.param(issue(by=OTHER_CA), "no trusted authority", id="another authority"),
        pytest.param(
            CA.issue_client(KEY.public, WHO, now=NOW + HOUR, lifetime=HOUR), "not valid yet", id="from later on"
        ),
        pytest.param(CA.issue_client(KEY.public, WHO, now=NOW - 3 * HOUR, lifetime=HOUR), "has expired", id="expired"),
        pytest.param(issue(), "", id="the one asked for"),
    ],
)
def test_certificate_that_is_not_the_one_requested_is_refused(certificate: Certificate, complaint: str) -> None:
    issued = IssuedCertificate(KEY, (certificate,))
    judged = validate_issued_certificate(issued, WHO, now=NOW, roots=(CA.certificate,), lifetime=HOUR)
    assert complaint in judged
    assert bool(judged) == bool(complaint)


def test_certificate_of_an_authority_is_refused() -> None:
    assert "authority" in validate_issued_certificate(
        IssuedCertificate(KEY, (ITSELF,)), CertificateSubject("system:a:b"), now=NOW
    )


def test_key_is_reused_by_a_second_attempt(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key.pem"
    first = load_or_create_key(path)
    assert load_or_create_key(path).public == first.public
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("nonsense")
    with pytest.raises(KeyRefused):
        load_or_create_key(path)
