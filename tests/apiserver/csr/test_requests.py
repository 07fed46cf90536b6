"""CertificateSigningRequests on a complete control plane: requester, approver, allowed changes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import orjson
import pytest
from tests.apiserver.conftest import ADMIN_TOKEN

from watchword.api.http import Peer, Request
from watchword.pki.certificates import parse_certificate
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject

URL = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
PEM = base64.b64encode(build_csr(PrivateKey.generate(), CertificateSubject("bob", ("dev",)))).decode()
ROOT = base64.b64encode(build_csr(PrivateKey.generate(), CertificateSubject("eve", ("system:masters",)))).decode()
APPROVED = {"type": "Approved", "status": "True", "reason": "Test", "message": "ok"}
SIGNERS = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}
REQUESTS = {"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["*"]}


def _body(**spec: Any) -> Any:
    fields = {"request": PEM, "signerName": CLIENT, "usages": ["client auth"], **spec}
    return {"metadata": {"name": "r"}, "spec": fields}


async def _approve(secured_api: Any, user: str = "", condition: Any = APPROVED) -> Any:
    _, csr = await secured_api.call("GET", f"{URL}/r")
    csr["status"] = {"conditions": [condition]}
    if user:
        return await secured_api.as_user(user, "PUT", f"{URL}/r/approval", csr)
    return await secured_api.call("PUT", f"{URL}/r/approval", csr)


async def test_server_sets_the_requester_whatever_the_body_contains(secured_api: Any) -> None:
    await secured_api.grant("bob", REQUESTS)
    forged = {"username": "admin", "groups": ["system:masters"], "uid": "0", "extra": {"a": ["b"]}}
    body = {**_body(**forged), "status": {"conditions": [APPROVED], "certificate": "eA=="}}

    code, csr = await secured_api.as_user("bob", "POST", URL, body)

    assert code == 201
    assert (csr["spec"]["username"], csr["spec"]["groups"]) == ("bob", ["system:authenticated"])
    assert "uid" not in csr["spec"]
    assert "extra" not in csr["spec"]
    assert not csr["status"].get("conditions")
    assert not csr["status"].get("certificate")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"request": "YWJj"},
            'spec.request: Invalid value: "YWJj": PEM block type must be CERTIFICATE REQUEST',
            id="no request",
        ),
        pytest.param({"usages": []}, "spec.usages: Required value", id="no usages"),
        pytest.param(
            {"usages": ["client auth", "client auth"]},
            'spec.usages[1]: Duplicate value: "client auth"',
            id="a usage twice",
        ),
        pytest.param({"usages": ["magic"]}, 'spec.usages[0]: Unsupported value: "magic"', id="unknown usage"),
        pytest.param(
            {"expirationSeconds": 599},
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            id="too short a life",
        ),
        pytest.param(
            {"signerName": "foo"},
            'spec.signerName: Invalid value: "foo": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'",
            id="signer without a path",
        ),
        pytest.param(
            {"signerName": "foo/bar"},
            'spec.signerName: Invalid value: "foo": should be a domain with at least two segments separated by dots',
            id="signer without a domain",
        ),
        pytest.param(
            {"signerName": "kubernetes.io/legacy-unknown"},
            'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": '
            "the legacy signerName is not allowed via this API version",
            id="legacy signer",
        ),
    ],
)
async def test_request_is_invalid(secured_api: Any, spec: Any, message: str) -> None:
    code, status = await secured_api.call("POST", URL, _body(**spec))

    assert code == 422
    assert status["message"].startswith(f'CertificateSigningRequest.certificates.k8s.io "r" is invalid: {message}')


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"request": base64.b64encode(b"x" * 65_537).decode()},
            "spec.request: Too long: may not be more than 65536 bytes",
            id="request",
        ),
        pytest.param(
            {"usages": ["client auth"] * 24}, "spec.usages: Too many: 24: must have at most 23 items", id="usages"
        ),
    ],
)
async def test_request_that_is_too_large_is_not_stored(secured_api: Any, spec: Any, message: str) -> None:
    code, status = await secured_api.call("POST", URL, _body(**spec))

    assert code == 422
    assert status["message"] == f'CertificateSigningRequest.certificates.k8s.io "r" is invalid: {message}'


async def test_request_with_too_much_metadata_is_not_stored(secured_api: Any) -> None:
    body = {**_body(), "metadata": {"name": "r", "annotations": {"a": "x" * 65_536}}}

    code, status = await secured_api.call("POST", URL, body)

    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata")


async def test_request_of_a_user_with_too_much_extra_is_not_stored(secured_api: Any) -> None:
    extra = tuple((f"Impersonate-Extra-{number}", "x" * 1024) for number in range(64))
    headers = (("Authorization", f"Bearer {ADMIN_TOKEN}"), ("Impersonate-User", "bob"), *extra)
    await secured_api.grant("bob", REQUESTS)

    answer = await secured_api.plane.handle(Request("POST", URL, (), headers, orjson.dumps(_body())))

    assert (answer.status, orjson.loads(answer.body)["details"]["causes"][0]["field"]) == (422, "spec.extra")


async def test_request_for_a_superuser_is_refused(secured_api: Any) -> None:
    code, status = await secured_api.call("POST", URL, _body(request=ROOT))

    assert code == 403
    assert status["message"].endswith(
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        pytest.param({**SIGNERS, "verbs": ["approve"], "resourceNames": [CLIENT]}, 200, id="this signer"),
        pytest.param({**SIGNERS, "verbs": ["approve"], "resourceNames": ["kubernetes.io/*"]}, 200, id="its domain"),
        pytest.param({**SIGNERS, "verbs": ["approve"], "resourceNames": ["acme.test/*"]}, 403, id="another domain"),
        pytest.param({**SIGNERS, "verbs": ["sign"], "resourceNames": [CLIENT]}, 403, id="may sign only"),
    ],
)
async def test_approving_needs_the_signers_right(secured_api: Any, rule: Any, code: int) -> None:
    update = {"apiGroups": ["certificates.k8s.io"], "resources": ["*/approval"], "verbs": ["update"]}
    await secured_api.grant("bob", update, rule)
    await secured_api.call("POST", URL, _body())

    assert (await _approve(secured_api, "bob"))[0] == code


async def test_approved_request_is_signed_and_completed_with_times(secured_api: Any) -> None:
    await secured_api.call("POST", URL, _body())
    code, csr = await _approve(secured_api)
    assert code == 200
    assert csr["status"]["conditions"][0]["lastUpdateTime"] == "2026-01-01T00:00:00Z"

    _, signed = await secured_api.call("GET", f"{URL}/r")
    assert base64.b64decode(signed["status"]["certificate"]).startswith(b"-----BEGIN CERTIFICATE-----")


async def test_certificate_and_decision_never_change_again(secured_api: Any) -> None:
    await secured_api.call("POST", URL, _body())
    await _approve(secured_api)
    _, csr = await secured_api.call("GET", f"{URL}/r")

    code, status = await secured_api.call("PUT", f"{URL}/r/approval", {**csr, "status": {"conditions": []}})
    assert (code, "may not remove a condition of type" in status["message"]) == (422, True)
    both = [*csr["status"]["conditions"], {**APPROVED, "type": "Denied"}]
    code, status = await secured_api.call("PUT", f"{URL}/r/approval", {**csr, "status": {"conditions": both}})
    assert (code, "mutually exclusive" in status["message"]) == (422, True)
    other = {**csr["status"], "certificate": base64.b64encode(secured_api.rules.root_bundle()).decode()}
    code, status = await secured_api.call("PUT", f"{URL}/r/status", {**csr, "status": other})
    assert (code, "may not modify existing certificate content" in status["message"]) == (422, True)


async def test_plain_update_changes_labels_only(secured_api: Any) -> None:
    _, csr = await secured_api.call("POST", URL, _body())
    csr["metadata"]["labels"] = {"a": "b"}
    csr["spec"]["usages"] = ["server auth"]
    csr["status"] = {"conditions": [APPROVED]}

    code, updated = await secured_api.call("PUT", f"{URL}/r", csr)

    assert (code, updated["metadata"]["labels"], updated["spec"]["usages"]) == (200, {"a": "b"}, ["client auth"])
    assert not updated["status"].get("conditions")


async def test_signing_needs_the_right_to_sign(secured_api: Any) -> None:
    update = {"apiGroups": ["certificates.k8s.io"], "resources": ["*/status"], "verbs": ["update"]}
    await secured_api.grant("bob", update)
    _, csr = await secured_api.call("POST", URL, _body(signerName="acme.test/robots"))
    csr["status"] = {"certificate": base64.b64encode(secured_api.rules.root_bundle()).decode()}

    code, status = await secured_api.as_user("bob", "PUT", f"{URL}/r/status", csr)
    assert code == 403
    assert status["message"].endswith('user not permitted to sign requests with signerName "acme.test/robots"')
    assert (await secured_api.call("PUT", f"{URL}/r/status", csr))[0] == 200


async def test_issued_certificate_lets_its_holder_in_until_it_ends(secured_api: Any) -> None:
    await secured_api.call("POST", URL, _body(expirationSeconds=600))
    await _approve(secured_api)
    _, signed = await secured_api.call("GET", f"{URL}/r")
    chain = (parse_certificate(base64.b64decode(signed["status"]["certificate"])).der,)
    request = Request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=b"{}", peer=Peer("", chain))

    answer = await secured_api.plane.handle(request)
    info = orjson.loads(answer.body)["status"]["userInfo"]
    assert (info["username"], info["groups"]) == ("bob", ["dev", "system:authenticated"])
    await asyncio.sleep(601)  # virtual
    assert (await secured_api.plane.handle(request)).status == 401
