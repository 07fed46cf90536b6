"""Which requests a person who accepts a cluster may approve: refusals before successes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER, Label, agent_user, cluster_group
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.hub.first_request import (
    BOOTSTRAP_ACCOUNT,
    Approve,
    NotAsked,
    NothingToApprove,
    Refuse,
    Terms,
    judge_admission,
)
from watchword.pki.csr import build_request
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import Subject
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
    asked = build_request(KEYS[key], Subject(agent_user(subject, "agent"), (cluster_group(subject),)))
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
        pytest.param([a_request(subject="victim")], Terms(), "edge-1' but asks for the subject", id="label lies"),
        pytest.param([a_request(subject="victim")], Terms(anyone=True), "victim", id="label lies, whoever asks"),
        pytest.param([a_request(), a_request("r2", subject="victim")], Terms(), "r2", id="one of two lies"),
        pytest.param([a_request(by="mallory")], Terms(), "--requesters mallory", id="a stranger asks"),
        pytest.param(
            [a_request(by=TOKEN_USER, spec={"groups": []})],
            Terms(),
            "not a bootstrap",
            id="a token in name only",
        ),
        pytest.param([a_request(), a_request("r2", key=1)], Terms(), "more than one key", id="two keys"),
        pytest.param(
            [a_request(status=APPROVED), a_request("r2", key=1)],
            Terms(),
            "claimed first by",
            id="another key before",
        ),
        pytest.param([a_request()], Terms(chosen="r9"), "no request r9", id="a choice that is not there"),
        pytest.param(
            [a_request(spec={"signerName": "kubernetes.io/kubelet-serving"})], Terms(), "signer", id="another signer"
        ),
    ],
)
def test_what_is_refused(requests: list[Object], terms: Terms, complaint: str) -> None:
    verdict = judge_admission(the_cluster(), requests, terms)
    assert isinstance(verdict, Refuse)
    assert complaint in verdict.why


@pytest.mark.parametrize(
    ("requests", "terms", "names"),
    [
        pytest.param([a_request()], Terms(), ["r1"], id="a token asks"),
        pytest.param([a_request(by=BOOTSTRAP_ACCOUNT)], Terms(), ["r1"], id="the bootstrap account asks"),
        pytest.param([a_request(by="carol")], Terms(frozenset({"carol"})), ["r1"], id="somebody named asks"),
        pytest.param([a_request(by="carol")], Terms(anyone=True), ["r1"], id="anybody may ask"),
        pytest.param([a_request(), a_request("r2")], Terms(), ["r1", "r2"], id="one key asks twice"),
        pytest.param([a_request(), a_request("r2", key=1)], Terms(chosen="r2"), ["r2"], id="one of two was chosen"),
        pytest.param(
            [a_request(status=APPROVED), a_request("r2", key=1)], Terms(take_over=True), ["r2"], id="by take-over"
        ),
        pytest.param(
            [a_request(status=approved(BEFORE)), a_request("r2", key=1)],
            Terms(),
            ["r2"],
            id="another key before, of an earlier cluster",
        ),
    ],
)
def test_what_is_approved(requests: list[Object], terms: Terms, names: list[str]) -> None:
    verdict = judge_admission(the_cluster(), requests, terms)
    assert isinstance(verdict, Approve)
    assert [csr["metadata"]["name"] for csr in verdict.requests] == names


def test_a_joined_name_passes_to_a_new_key_only_by_take_over() -> None:
    refused = judge_admission(a_joined_cluster(), [a_request()], Terms())
    assert isinstance(refused, Refuse)
    assert "rejoin --take-over" in refused.why
    assert isinstance(judge_admission(a_joined_cluster(), [a_request()], Terms(take_over=True)), Approve)


def test_there_may_be_nothing_to_approve() -> None:
    own = a_request(by=agent_user(NAME, "agent"))
    addon = a_request(labels={Label.ADDON_NAME: "search"})
    assert judge_admission(the_cluster(), [], Terms()) == NotAsked()
    assert judge_admission(the_cluster(), [addon], Terms()) == NotAsked()
    assert judge_admission(the_cluster(), [a_request(status=APPROVED)], Terms()) == NothingToApprove()
    assert judge_admission(the_cluster(), [a_request(status=approved(BEFORE))], Terms()) == NotAsked()
    assert judge_admission(a_joined_cluster(), [own], Terms()) == NothingToApprove()
