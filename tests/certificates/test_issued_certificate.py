from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.certificates.issued_certificate import IssuedCertificate, load_or_create_key, validate_issued_certificate
from watchword.discovery.errors import BootstrapFailed, DiscoveryReason
from watchword.discovery.tls_bootstrap import (
    CertificateSpec,
    TlsBootstrap,
    certificate_request_manifest,
    choose_request_name,
    decide_bootstrap_request,
    is_same_request,
)
from watchword.kube.client import Client
from watchword.pki.authority import Authority, CertificateTemplate, Validity
from watchword.pki.certificates import Certificate
from watchword.pki.errors import KeyRefused
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.pki.usages import SERVING_USAGES
from watchword.testing.memory_api import MemoryApi

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CA, STRANGER = Authority.make("ca", now=NOW), Authority.make("ca", now=NOW)
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
        pytest.param(issue(CertificateSubject("system:a:x", WHO.organisations)), "somebody else", id="another name"),
        pytest.param(issue(CertificateSubject("system:a:b", ("system:a",))), "somebody else", id="a group is missing"),
        pytest.param(
            issue(CertificateSubject("system:a:b", (*WHO.organisations, "system:masters"))),
            "somebody else",
            id="a gift",
        ),
        pytest.param(SERVING, "not meant for clients", id="a server's certificate"),
        pytest.param(issue(life=24 * HOUR), "longer than", id="too long a life"),
        pytest.param(issue(by=STRANGER), "no trusted authority", id="another authority"),
        pytest.param(
            CA.issue_client(KEY.public, WHO, now=NOW + HOUR, lifetime=HOUR), "not valid now", id="from later on"
        ),
        pytest.param(
            CA.issue_client(KEY.public, WHO, now=NOW - 3 * HOUR, lifetime=HOUR), "not valid now", id="expired"
        ),
        pytest.param(issue(), "", id="the one asked for"),
    ],
)
def test_decide_issued(certificate: Certificate, complaint: str) -> None:
    issued = IssuedCertificate(KEY, (certificate,))
    judged = validate_issued_certificate(issued, WHO, now=NOW, roots=(CA.certificate,), lifetime=HOUR)
    assert complaint in judged
    assert bool(judged) == bool(complaint)


def test_an_authoritys_certificate_is_never_a_credential() -> None:
    assert "authority" in validate_issued_certificate(
        IssuedCertificate(KEY, (ITSELF,)), CertificateSubject("system:a:b"), now=NOW
    )


def a_request(certificate: bytes = b"", **conditions: str) -> Object:
    rows = [{"type": kind, "status": "True", "message": message} for kind, message in conditions.items()]
    return {"status": {"conditions": rows, "certificate": base64.b64encode(certificate).decode()}}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        pytest.param(a_request(Denied="no"), DiscoveryReason.REQUEST_DENIED, id="denied"),
        pytest.param(a_request(b"x", Approved="", Denied="no"), DiscoveryReason.REQUEST_DENIED, id="denied in the end"),
        pytest.param(a_request(Approved="", Failed="no"), DiscoveryReason.REQUEST_FAILED, id="failed"),
    ],
)
def test_request_without_a_response_times_out(request_: Object, reason: DiscoveryReason) -> None:
    with pytest.raises(BootstrapFailed) as refusal:
        decide_bootstrap_request(request_)
    assert refusal.value.reason == reason


@pytest.mark.parametrize("request_", [{}, a_request(), a_request(Approved=""), a_request(b"x")])
def test_a_request_waits_until_it_is_both_approved_and_issued(request_: Object) -> None:
    assert decide_bootstrap_request(request_) is None
    assert decide_bootstrap_request(a_request(b"x", Approved="")) is not None


def test_same_specification_with_the_same_key_is_the_same_request() -> None:
    assert choose_request_name(WISH, KEY) == choose_request_name(WISH, KEY)
    others = [
        choose_request_name(WISH, OTHER),
        choose_request_name(replace(WISH, signer="x"), KEY),
        choose_request_name(replace(WISH, subject=CertificateSubject("x")), KEY),
        choose_request_name(replace(WISH, lifetime=None), KEY),
    ]
    assert len({choose_request_name(WISH, KEY), *others}) == 5
    assert is_same_request(certificate_request_manifest(WISH, KEY), certificate_request_manifest(WISH, KEY))


def _changed(**spec: Any) -> Callable[[], Object]:
    return lambda: {
        **certificate_request_manifest(WISH, KEY),
        "spec": {**certificate_request_manifest(WISH, KEY)["spec"], **spec},
    }


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(lambda: certificate_request_manifest(WISH, OTHER), id="another key"),
        pytest.param(
            lambda: certificate_request_manifest(replace(WISH, subject=CertificateSubject("x")), KEY), id="another name"
        ),
        pytest.param(_changed(usages=["server auth"]), id="other usages"),
        pytest.param(_changed(signerName="x"), id="another signer"),
        pytest.param(_changed(request="nonsense"), id="nonsense"),
        pytest.param(dict, id="nothing"),
    ],
)
def test_a_request_that_differs_is_not_taken_for_ours(foreign: Callable[[], Object]) -> None:
    assert not is_same_request(foreign(), certificate_request_manifest(WISH, KEY))


def test_rsa_keys_ask_for_encipherment_as_well() -> None:
    assert "key encipherment" in certificate_request_manifest(WISH, PrivateKey.generate_rsa())["spec"]["usages"]
    assert "key encipherment" not in certificate_request_manifest(WISH, KEY)["spec"]["usages"]


class _Clock:
    def now(self) -> datetime:
        return NOW


async def test_request_of_the_same_name_by_another_requester_is_not_used() -> None:
    api = MemoryApi()
    client = Client.from_handler(api.handle)
    ours = certificate_request_manifest(WISH, KEY)
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{ours['metadata']['name']}"
    api.put(path, {**certificate_request_manifest(WISH, OTHER), "metadata": ours["metadata"]})
    with pytest.raises(BootstrapFailed, match="another requester") as refusal:
        await TlsBootstrap(client, _Clock()).obtain(WISH, KEY)
    assert refusal.value.reason == DiscoveryReason.REQUEST_REFUSED


async def test_a_wrong_certificate_from_the_hub_is_not_used() -> None:
    api = MemoryApi()
    ours = certificate_request_manifest(WISH, KEY)
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{ours['metadata']['name']}"
    api.put(path, {**ours, **a_request(issue(key=OTHER).pem, Approved="")})
    with pytest.raises(BootstrapFailed, match="another key") as refusal:
        await TlsBootstrap(Client.from_handler(api.handle), _Clock()).obtain(WISH, KEY)
    assert refusal.value.reason == DiscoveryReason.CERTIFICATE_WRONG


async def test_a_request_that_is_approved_but_never_issued_ends_with_advice() -> None:
    api = MemoryApi()
    ours = certificate_request_manifest(WISH, KEY)
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{ours['metadata']['name']}"
    api.put(path, {**ours, **a_request(Approved="")})
    with pytest.raises(BootstrapFailed, match="watchword doctor") as refusal:
        await TlsBootstrap(Client.from_handler(api.handle), _Clock()).obtain(WISH, KEY)
    assert refusal.value.reason == DiscoveryReason.NOT_ISSUED


def test_key_is_reused_by_a_second_attempt(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key.pem"
    first = load_or_create_key(path)
    assert load_or_create_key(path).public == first.public
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("nonsense")
    with pytest.raises(KeyRefused):
        load_or_create_key(path)
