"""What an agent makes of the hub's decision about its request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.meta import Object
from watchword.api.names import Label
from watchword.api.time import rfc3339
from watchword.drivers.csr.agent import (
    ISSUANCE_TIMEOUT,
    RETRY_AFTER_REFUSAL,
    choose_current_request,
    decide_request_outcome,
    request_manifest,
)
from watchword.drivers.interface import CredentialSubject, NewCredential, Pending, WantedCredential
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey, PublicKey
from watchword.pki.subjects import CertificateSubject

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY = PrivateKey.generate()
USER, GROUPS = "system:open-cluster-management:edge:a1", ("system:open-cluster-management:edge",)
WANTED = WantedCredential("edge", CredentialSubject(USER, GROUPS))
AUTHORITY = Authority.make("hub", now=NOW - timedelta(days=1))


def decided(verdict: str, status: Mapping[str, str] | None = None, *, since: timedelta = timedelta(0)) -> Object:
    row = {"type": verdict, "status": "True", "message": "no", "lastUpdateTime": rfc3339(NOW - since)}
    return {**request_manifest(WANTED, KEY), "status": {"conditions": [row], **(status or {})}}


def issued(key: PublicKey = KEY.public, user: str = USER) -> dict[str, str]:
    certificate = AUTHORITY.issue_client(key, CertificateSubject(user, GROUPS), now=NOW, lifetime=timedelta(days=1))
    return {"certificate": base64.b64encode(certificate.pem).decode()}


@pytest.mark.parametrize(
    ("request_", "reason", "recheck"),
    [
        pytest.param(decided("Denied"), "CSRDenied", RETRY_AFTER_REFUSAL, id="denied just now"),
        pytest.param(
            decided("Denied", since=RETRY_AFTER_REFUSAL - SECOND), "CSRDenied", SECOND, id="denied a while ago"
        ),
        pytest.param(decided("Failed"), "CSRFailed", RETRY_AFTER_REFUSAL, id="not signed"),
        pytest.param(
            decided("Approved", issued(user="somebody")), "CertificateMismatch", RETRY_AFTER_REFUSAL, id="for others"
        ),
        pytest.param(
            decided("Approved", issued(PrivateKey.generate().public)),
            "CertificateMismatch",
            RETRY_AFTER_REFUSAL,
            id="of another key",
        ),
        pytest.param(
            decided("Approved", since=ISSUANCE_TIMEOUT), "CertificateNotIssued", RETRY_AFTER_REFUSAL, id="never signed"
        ),
    ],
)
def test_who_is_refused_waits_with_the_key_that_was_refused(request_: Object, reason: str, recheck: timedelta) -> None:
    answer = decide_request_outcome(WANTED, KEY, request_, now=NOW)

    assert answer == Pending(reason, getattr(answer, "message", ""), recheck=recheck, failed=True)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(decided("Denied", since=RETRY_AFTER_REFUSAL), id="denied long ago"),
        pytest.param(decided("Failed", since=2 * RETRY_AFTER_REFUSAL), id="not signed long ago"),
        pytest.param(
            decided("Approved", issued(user="somebody"), since=RETRY_AFTER_REFUSAL), id="for others, long ago"
        ),
    ],
)
def test_another_key_is_asked_about_once_the_refusal_has_had_its_time(request_: Object) -> None:
    answer = decide_request_outcome(WANTED, KEY, request_, now=NOW)

    assert isinstance(answer, Pending)
    assert answer.recheck == timedelta(0)
    assert PrivateKey.from_pem(answer.keep["pending.key"]).public != KEY.public


def test_the_certificate_that_was_asked_for_is_taken_with_its_key() -> None:
    answer = decide_request_outcome(WANTED, KEY, decided("Approved", issued()), now=NOW)

    assert isinstance(answer, NewCredential)
    assert set(answer.data) == {"tls.key", "tls.crt"}
    assert answer.data["tls.key"] == KEY.pem.reveal()


def test_undecided_request_is_waited_for() -> None:
    answer = decide_request_outcome(WANTED, KEY, request_manifest(WANTED, KEY), now=NOW)

    assert isinstance(answer, Pending)
    assert (answer.reason, answer.failed, answer.keep) == ("AwaitingHubApproval", False, {})
    assert request_manifest(WANTED, KEY)["metadata"]["labels"] == {Label.CLUSTER_NAME: "edge"}


def asked_by(requester: str, *conditions: Object) -> Object:
    return {"spec": {"username": requester}, "status": {"conditions": list(conditions)}}


FIRST, SECOND_TOKEN = "system:bootstrap:aaaaaa", "system:bootstrap:bbbbbb"
BY_FIRST, BY_SECOND = asked_by(FIRST), asked_by(SECOND_TOKEN)
APPROVED = asked_by(FIRST, {"type": "Approved", "status": "True"})
BY_ACCOUNT = asked_by("system:serviceaccount:open-cluster-management:agent-registration-bootstrap")


@pytest.mark.parametrize(
    ("requester", "found", "expected"),
    [
        pytest.param(SECOND_TOKEN, [None, None], None, id="nothing was asked"),
        pytest.param(SECOND_TOKEN, [BY_FIRST, None], None, id="the token was replaced: asked again"),
        pytest.param(SECOND_TOKEN, [BY_FIRST, BY_SECOND], BY_SECOND, id="asked again already"),
        pytest.param(SECOND_TOKEN, [APPROVED, BY_SECOND], APPROVED, id="the first was approved after all"),
        pytest.param(FIRST, [BY_FIRST, None], BY_FIRST, id="the same token"),
        pytest.param("", [BY_FIRST], BY_FIRST, id="a credential that does not tell its user"),
        pytest.param(SECOND_TOKEN, [BY_ACCOUNT, None], BY_ACCOUNT, id="asked by an account, which does not expire"),
    ],
)
def test_request_of_a_replaced_token_is_made_again(
    requester: str, found: list[Object | None], expected: Object | None
) -> None:
    assert choose_current_request(replace(WANTED, requester=requester), found) is expected
