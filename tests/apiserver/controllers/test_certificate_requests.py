"""Certificate signing requests from approval to garbage collection."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.apiserver.serving.model import User
from watchword.apiserver.serving.pipeline import WriteRequest
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject

pytestmark = pytest.mark.timeout(20)
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
BOB = CertificateSubject("bob", ("dev",))
NODE = CertificateSubject("system:node:n1", ("system:nodes",))
USAGES = ("digital signature", "client auth")
BOOTSTRAPPER = User("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated"))
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


async def _request(
    harness: Any,
    signer: str = CLIENT,
    subject: CertificateSubject = BOB,
    usages: tuple[str, ...] = USAGES,
    user: User = BOOTSTRAPPER,
    expires: int | None = None,
) -> None:
    pem = build_csr(PrivateKey.generate(), subject, AlternativeNames())
    body: Object = {"signerName": signer, "usages": list(usages), "request": base64.b64encode(pem).decode()}
    if expires is not None:
        body["expirationSeconds"] = expires
    manifest = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    obj = {**manifest, "metadata": {"name": "r"}, "spec": body}
    await harness.registry.create(CERTIFICATE_SIGNING_REQUESTS, obj, WriteRequest(user=user))
    await harness.settles()


async def _decide(harness: Any, type_: str) -> None:
    csr = harness.get(CERTIFICATE_SIGNING_REQUESTS, "r")
    now = harness.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    csr["status"] = {"conditions": [{"type": type_, "status": "True", "reason": "Test", "lastUpdateTime": now}]}
    await harness.registry.update(CERTIFICATE_SIGNING_REQUESTS, csr, "approval")
    await harness.settles()


def _csr(harness: Any) -> Object:
    found: Object | None = harness.get(CERTIFICATE_SIGNING_REQUESTS, "r")
    assert found is not None
    return found


def _issued(harness: Any) -> Certificate:
    return parse_certificate(base64.b64decode(_csr(harness)["status"]["certificate"]))


async def test_unapproved_request_is_not_signed(harness: Any) -> None:
    await _request(harness)

    assert _csr(harness).get("status", {}) == {}


@pytest.mark.parametrize(
    ("asked", "from_start"),
    [
        pytest.param(None, 365 * DAY, id="the longest by default, backdated at both ends"),
        pytest.param(600, 15 * MINUTE, id="ten minutes are kept in full"),
        pytest.param(3600, 65 * MINUTE, id="a short life is kept in full"),
        pytest.param(8 * 3600, 8 * HOUR, id="a long life is shortened by the backdating"),
        pytest.param(2 * 365 * 86400, 365 * DAY, id="never longer than the longest"),
    ],
)
async def test_approved_request_is_signed(harness: Any, asked: int | None, from_start: timedelta) -> None:
    await _request(harness, expires=asked)
    before = harness.clock.now().replace(microsecond=0)
    await _decide(harness, "Approved")

    issued = _issued(harness)
    assert issued.not_before == before - 5 * MINUTE
    assert issued.not_after - issued.not_before == from_start
    assert (issued.subject, issued.is_ca) == (CertificateSubject("bob", ("dev",)), False)
    assert issued.extended_usages == ("client auth",)


@pytest.mark.parametrize(
    ("signer", "subject", "usages", "message"),
    [
        pytest.param(
            CLIENT, CertificateSubject("bob"), ("server auth",), "invalid usage for client certificate", id="usage"
        ),
        pytest.param(
            CLIENT, CertificateSubject("bob"), ("digital signature",), "missing required usage", id="no client auth"
        ),
        pytest.param(
            KUBELET, CertificateSubject("bob"), USAGES, "organization is not system:nodes", id="no node group"
        ),
        pytest.param(
            KUBELET, CertificateSubject("bob", ("system:nodes",)), USAGES, "common name does not begin", id="no node"
        ),
        pytest.param(KUBELET, NODE, ("client auth",), "usages did not match", id="too few usages"),
    ],
)
async def test_request_against_the_signers_rules_fails(
    harness: Any, signer: str, subject: CertificateSubject, usages: tuple[str, ...], message: str
) -> None:
    await _request(harness, signer, subject, usages)
    await _decide(harness, "Approved")

    failed = find_condition(_csr(harness), "Failed")
    assert failed is not None
    assert failed.reason == "SignerValidationFailure"
    assert message in failed.message
    assert "certificate" not in _csr(harness)["status"]


async def test_request_for_another_signer_is_not_signed(harness: Any) -> None:
    await _request(harness, "acme.test/robots")
    await _decide(harness, "Approved")

    assert "certificate" not in _csr(harness)["status"]


async def test_node_request_is_approved_once_the_right_is_granted(harness: Any) -> None:
    await _request(harness, KUBELET, NODE)
    assert find_condition(_csr(harness), "Approved") is None

    await harness.binds("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers")

    approved = find_condition(_csr(harness), "Approved")
    assert approved is not None
    assert approved.reason == "AutoApproved"
    assert _issued(harness).subject == NODE


async def test_node_renews_its_own_certificate_but_no_other(harness: Any) -> None:
    await harness.binds("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes")

    await _request(harness, KUBELET, NODE, user=User("system:node:other", groups=("system:nodes",)))
    assert find_condition(_csr(harness), "Approved") is None
    await harness.registry.delete(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster("r"))
    await _request(harness, KUBELET, NODE, user=User("system:node:n1", groups=("system:nodes",)))
    assert _issued(harness).subject == NODE


@pytest.mark.parametrize(
    ("signer", "decision", "kept"),
    [
        pytest.param(CLIENT, "", DAY, id="pending for a day"),
        pytest.param(CLIENT, "Denied", HOUR, id="denied for an hour"),
        pytest.param(CLIENT, "Approved", HOUR, id="issued for an hour"),
        pytest.param("acme.test/robots", "Approved", DAY, id="approved but never issued for a day"),
    ],
)
async def test_request_is_forgotten(harness: Any, signer: str, decision: str, kept: timedelta) -> None:
    await _request(harness, signer)
    if decision:
        await _decide(harness, decision)

    await harness.elapses(kept - 2 * MINUTE)
    assert harness.get(CERTIFICATE_SIGNING_REQUESTS, "r") is not None
    await harness.elapses(3 * MINUTE)
    assert harness.get(CERTIFICATE_SIGNING_REQUESTS, "r") is None
