"""The life of a certificate signing request, from approval to oblivion."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.apiserver.model import User
from watchword.apiserver.registry.call import Call
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.csr import build_request
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, Subject

pytestmark = pytest.mark.timeout(20)
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
BOB = Subject("bob", ("dev",))
NODE = Subject("system:node:n1", ("system:nodes",))
USAGES = ("digital signature", "client auth")
BOOTSTRAPPER = User("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated"))
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


async def _request(
    world: Any,
    signer: str = CLIENT,
    subject: Subject = BOB,
    usages: tuple[str, ...] = USAGES,
    user: User = BOOTSTRAPPER,
    expires: int | None = None,
) -> None:
    pem = build_request(PrivateKey.generate(), subject, AlternativeNames())
    body: Object = {"signerName": signer, "usages": list(usages), "request": base64.b64encode(pem).decode()}
    if expires is not None:
        body["expirationSeconds"] = expires
    manifest = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    obj = {**manifest, "metadata": {"name": "r"}, "spec": body}
    await world.registry.create(CERTIFICATE_SIGNING_REQUESTS, obj, Call(user=user))
    await world.settles()


async def _decide(world: Any, type_: str) -> None:
    csr = world.get(CERTIFICATE_SIGNING_REQUESTS, "r")
    now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    csr["status"] = {"conditions": [{"type": type_, "status": "True", "reason": "Test", "lastUpdateTime": now}]}
    await world.registry.update(CERTIFICATE_SIGNING_REQUESTS, csr, "approval")
    await world.settles()


def _csr(world: Any) -> Object:
    found: Object | None = world.get(CERTIFICATE_SIGNING_REQUESTS, "r")
    assert found is not None
    return found


def _issued(world: Any) -> Certificate:
    return parse_certificate(base64.b64decode(_csr(world)["status"]["certificate"]))


async def test_unapproved_request_is_not_signed(world: Any) -> None:
    await _request(world)

    assert _csr(world).get("status", {}) == {}


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
async def test_approved_request_is_signed(world: Any, asked: int | None, from_start: timedelta) -> None:
    await _request(world, expires=asked)
    before = world.clock.now().replace(microsecond=0)
    await _decide(world, "Approved")

    issued = _issued(world)
    assert issued.not_before == before - 5 * MINUTE
    assert issued.not_after - issued.not_before == from_start
    assert (issued.subject, issued.is_ca) == (Subject("bob", ("dev",)), False)
    assert issued.extended_usages == ("client auth",)


@pytest.mark.parametrize(
    ("signer", "subject", "usages", "message"),
    [
        pytest.param(CLIENT, Subject("bob"), ("server auth",), "invalid usage for client certificate", id="usage"),
        pytest.param(CLIENT, Subject("bob"), ("digital signature",), "missing required usage", id="no client auth"),
        pytest.param(KUBELET, Subject("bob"), USAGES, "organization is not system:nodes", id="no node group"),
        pytest.param(KUBELET, Subject("bob", ("system:nodes",)), USAGES, "common name does not begin", id="no node"),
        pytest.param(KUBELET, NODE, ("client auth",), "usages did not match", id="too few usages"),
    ],
)
async def test_request_against_the_signers_rules_fails(
    world: Any, signer: str, subject: Subject, usages: tuple[str, ...], message: str
) -> None:
    await _request(world, signer, subject, usages)
    await _decide(world, "Approved")

    failed = find_condition(_csr(world), "Failed")
    assert failed is not None
    assert failed.reason == "SignerValidationFailure"
    assert message in failed.message
    assert "certificate" not in _csr(world)["status"]


async def test_request_for_another_signer_waits_for_somebody_else(world: Any) -> None:
    await _request(world, "acme.test/robots")
    await _decide(world, "Approved")

    assert "certificate" not in _csr(world)["status"]


async def test_node_request_is_approved_once_the_right_is_granted(world: Any) -> None:
    await _request(world, KUBELET, NODE)
    assert find_condition(_csr(world), "Approved") is None

    await world.binds("system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers")

    approved = find_condition(_csr(world), "Approved")
    assert approved is not None
    assert approved.reason == "AutoApproved"
    assert _issued(world).subject == NODE


async def test_node_renews_its_own_certificate_but_no_other(world: Any) -> None:
    await world.binds("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes")

    await _request(world, KUBELET, NODE, user=User("system:node:other", groups=("system:nodes",)))
    assert find_condition(_csr(world), "Approved") is None
    await world.registry.delete(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster("r"))
    await _request(world, KUBELET, NODE, user=User("system:node:n1", groups=("system:nodes",)))
    assert _issued(world).subject == NODE


@pytest.mark.parametrize(
    ("signer", "decision", "kept"),
    [
        pytest.param(CLIENT, "", DAY, id="pending for a day"),
        pytest.param(CLIENT, "Denied", HOUR, id="denied for an hour"),
        pytest.param(CLIENT, "Approved", HOUR, id="issued for an hour"),
        pytest.param("acme.test/robots", "Approved", DAY, id="approved but never issued for a day"),
    ],
)
async def test_request_is_forgotten(world: Any, signer: str, decision: str, kept: timedelta) -> None:
    await _request(world, signer)
    if decision:
        await _decide(world, decision)

    await world.elapses(kept - 2 * MINUTE)
    assert world.get(CERTIFICATE_SIGNING_REQUESTS, "r") is not None
    await world.elapses(3 * MINUTE)
    assert world.get(CERTIFICATE_SIGNING_REQUESTS, "r") is None
