"""Which requests an administrator who accepts a cluster approves: refusals before successes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER, Annotation, Label, agent_user, cluster_group
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.credentials.certificates.name_ownership import (
    BOOTSTRAP_ACCOUNT,
    ApprovalTerms,
    ApproveRequests,
    NoRequest,
    NothingToApprove,
    RefuseApproval,
    decide_approval,
)
from watchword.credentials.certificates.requests import GRPC_SERVER_USER
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.testing.builders import a_cluster

NAME = "edge-1"
KEYS = [PrivateKey.generate() for _ in range(2)]
TOKEN_USER = "system:bootstrap:x7k2m9"
BEFORE, BORN, LATER = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3))


def approved(at: str) -> Object:
    return {"conditions": [{"type": "Approved", "status": "True", "lastTransitionTime": at}]}


APPROVED = approved(LATER)


def a_request(name: str = "r1", *, subject: str = NAME, by: str = TOKEN_USER, key: int = 0, **fields: Any) -> Object:
    groups = ["system:bootstrappers", "system:authenticated"] if by == TOKEN_USER else ["system:authenticated"]
    asked = build_csr(KEYS[key], CertificateSubject(agent_user(subject, "agent"), (cluster_group(subject),)))
    spec = {
        "request": base64.b64encode(asked).decode(),
        "signerName": KUBE_CLIENT_SIGNER,
        "usages": ["digital signature", "client auth"],
        "username": by,
        "groups": groups,
    }
    labels = {Label.CLUSTER_NAME: NAME, **fields.pop("labels", {})}
    metadata = {"labels": labels}
    return CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster(name),
        metadata=metadata,
        spec={**spec, **fields.pop("spec", {})},
        status=fields.get("status", {}),
    )


def the_cluster() -> Object:
    found = a_cluster(NAME)
    return {**found, "metadata": {**found["metadata"], "creationTimestamp": BORN}}


def a_joined_cluster() -> Object:
    return {**the_cluster(), "status": {"conditions": [{"type": "ManagedClusterJoined", "status": "True"}]}}


@pytest.mark.parametrize(
    ("requests", "terms", "complaint"),
    [
        pytest.param(
            [a_request(subject="victim")], ApprovalTerms(), "edge-1' but asks for the subject", id="label lies"
        ),
        pytest.param(
            [a_request(subject="victim")], ApprovalTerms(anyone=True), "victim", id="wrong label, any requester"
        ),
        pytest.param(
            [a_request(), a_request("r2", subject="victim")],
            ApprovalTerms(chosen="r2"),
            "victim",
            id="the chosen one of two lies",
        ),
        pytest.param([a_request(by="mallory")], ApprovalTerms(), "--requesters mallory", id="unknown requester"),
        pytest.param(
            [a_request(by=TOKEN_USER, spec={"groups": []})],
            ApprovalTerms(),
            "not a bootstrap",
            id="a token in name only",
        ),
        pytest.param([a_request(), a_request("r2", key=1)], ApprovalTerms(), "more than one key", id="two keys"),
        pytest.param(
            [a_request(status=APPROVED), a_request("r2", key=1)],
            ApprovalTerms(),
            "claimed first by",
            id="another key before",
        ),
        pytest.param([a_request()], ApprovalTerms(chosen="r9"), "no request r9", id="a choice that is not there"),
        pytest.param(
            [a_request(spec={"signerName": "kubernetes.io/kubelet-serving"})],
            ApprovalTerms(),
            "signer",
            id="another signer",
        ),
    ],
)
def test_what_is_refused(requests: list[Object], terms: ApprovalTerms, complaint: str) -> None:
    verdict = decide_approval(the_cluster(), requests, terms)
    assert isinstance(verdict, RefuseApproval)
    assert complaint in verdict.why


@pytest.mark.parametrize(
    ("requests", "terms", "names"),
    [
        pytest.param([a_request()], ApprovalTerms(), ["r1"], id="a token asks"),
        pytest.param([a_request(by=BOOTSTRAP_ACCOUNT)], ApprovalTerms(), ["r1"], id="the bootstrap account asks"),
        pytest.param([a_request(by="carol")], ApprovalTerms(frozenset({"carol"})), ["r1"], id="a requester named asks"),
        pytest.param([a_request(by="carol")], ApprovalTerms(anyone=True), ["r1"], id="any requester"),
        pytest.param([a_request(), a_request("r2")], ApprovalTerms(), ["r1", "r2"], id="one key asks twice"),
        pytest.param(
            [a_request("r0", subject="victim"), a_request()], ApprovalTerms(), ["r1"], id="beside one whose label lies"
        ),
        pytest.param(
            [a_request("r0", by="mallory"), a_request()],
            ApprovalTerms(),
            ["r1"],
            id="beside one of an unknown requester",
        ),
        pytest.param(
            [a_request(), a_request("r2", key=1)], ApprovalTerms(chosen="r2"), ["r2"], id="one of two was chosen"
        ),
        pytest.param(
            [a_request(status=APPROVED), a_request("r2", key=1)],
            ApprovalTerms(take_over=True),
            ["r2"],
            id="by take-over",
        ),
        pytest.param(
            [a_request(status=approved(BEFORE)), a_request("r2", key=1)],
            ApprovalTerms(),
            ["r2"],
            id="another key before, of an earlier cluster",
        ),
    ],
)
def test_what_is_approved(requests: list[Object], terms: ApprovalTerms, names: list[str]) -> None:
    verdict = decide_approval(the_cluster(), requests, terms)
    assert isinstance(verdict, ApproveRequests)
    assert [csr["metadata"]["name"] for csr in verdict.requests] == names


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        pytest.param(a_request("r2", subject="victim"), "watchword deny --request r2", id="label lies"),
        pytest.param(a_request("r2", by="mallory", key=1), "--requesters mallory", id="unknown requester"),
    ],
)
def test_request_that_is_left_pending_is_reported(other: Object, complaint: str) -> None:
    verdict = decide_approval(the_cluster(), [other, a_request()], ApprovalTerms())
    assert isinstance(verdict, ApproveRequests)
    assert [complaint in text for text in verdict.left_pending] == [True]


def test_joined_cluster_is_not_blocked_by_a_request_whose_label_lies() -> None:
    lying = a_request(subject="victim")
    assert decide_approval(a_joined_cluster(), [lying], ApprovalTerms()) == NothingToApprove()


def test_a_joined_name_passes_to_a_new_key_only_by_take_over() -> None:
    refused = decide_approval(a_joined_cluster(), [a_request()], ApprovalTerms())
    assert isinstance(refused, RefuseApproval)
    assert "rejoin --take-over" in refused.why
    assert isinstance(
        decide_approval(a_joined_cluster(), [a_request()], ApprovalTerms(take_over=True)), ApproveRequests
    )


def test_there_may_be_nothing_to_approve() -> None:
    own = a_request(by=agent_user(NAME, "agent"))
    addon = a_request(labels={Label.ADDON_NAME: "search"})
    assert decide_approval(the_cluster(), [], ApprovalTerms()) == NoRequest()
    assert decide_approval(the_cluster(), [addon], ApprovalTerms()) == NoRequest()
    assert decide_approval(the_cluster(), [a_request(status=APPROVED)], ApprovalTerms()) == NothingToApprove()
    assert decide_approval(the_cluster(), [a_request(status=approved(BEFORE))], ApprovalTerms()) == NoRequest()
    assert decide_approval(a_joined_cluster(), [own], ApprovalTerms()) == NothingToApprove()


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        pytest.param({Annotation.CSR_USER: TOKEN_USER}, ApproveRequests, id="OCM's server, which notes no groups"),
        pytest.param({Annotation.CSR_USER: TOKEN_USER, Annotation.CSR_GROUPS: "[]"}, RefuseApproval, id="our server"),
        pytest.param({Annotation.CSR_USER: "somebody"}, RefuseApproval, id="another user"),
    ],
)
def test_request_over_grpc_is_judged_by_the_user_that_the_server_noted(notes: dict[str, str], expected: type) -> None:
    request = a_request(by=GRPC_SERVER_USER)
    request["metadata"]["annotations"] = notes

    assert isinstance(decide_approval(the_cluster(), [request], ApprovalTerms()), expected)
