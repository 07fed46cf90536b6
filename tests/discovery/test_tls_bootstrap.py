"""A bootstrap identity becomes a certificate, or the reason why not is told."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from tests.helpers.memory_api import MemoryApi

from watchword.api.meta import Object
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.discovery.errors import BootstrapFailed, DiscoveryReason
from watchword.discovery.tls_bootstrap import TlsBootstrap, decide_bootstrap_request
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CA = Authority.make("ca", now=NOW)
KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
WHO = CertificateSubject("system:a:b", ("system:a", "system:c"))
WISH = CertificateSpec(WHO, lifetime=HOUR)


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
    api.put(path, {**ours, **a_request(CA.issue_client(OTHER.public, WHO, now=NOW, lifetime=HOUR).pem, Approved="")})
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
