"""What an agent makes of the hub's decision about its request."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from watchword.api.credential_report import certificate_id
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Label
from watchword.api.time import rfc3339
from watchword.credentials.certificates.agent import (
    ISSUANCE_TIMEOUT,
    LONGEST_RECHECK_INTERVAL,
    RECHECK_INTERVAL,
    RETRY_AFTER_REFUSAL,
    CertificateAgentDriver,
    assess_certificate,
    certificate_spec,
    choose_current_request,
    decide_request_outcome,
    learn_certificates_by_use,
    request_manifest,
)
from watchword.credentials.driver import CredentialSubject, NewCredential, Pending, WantedCredential
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import Obtain, Reason
from watchword.http.server import http_date
from watchword.kube.client import Client
from watchword.kube.tls import ClientCertificate
from watchword.kube.watch import WatchUpdate
from watchword.pki.authority import Authority, CertificateTemplate, Validity
from watchword.pki.certificates import Certificate
from watchword.pki.keys import PrivateKey, PublicKey
from watchword.pki.subjects import CLIENT_USAGES, SERVING_USAGES, CertificateSubject, Usage
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Reduction, WatchScope

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
AT_ONCE = timedelta(0)
KEY = PrivateKey.generate()
USER, GROUPS = "system:open-cluster-management:edge:a1", ("system:open-cluster-management:edge",)
WANTED = WantedCredential("edge", CredentialSubject(USER, GROUPS))
AUTHORITY = Authority.make("hub", now=NOW - timedelta(days=1))


def decided(verdict: str, status: Mapping[str, str] | None = None, *, since: timedelta = timedelta(0)) -> Object:
    row = {"type": verdict, "status": "True", "message": "no", "lastUpdateTime": rfc3339(NOW - since)}
    return {**request_manifest(WANTED, KEY), "status": {"conditions": [row], **(status or {})}}


def certificate_of(
    usages: tuple[Usage, ...] = CLIENT_USAGES, *, begins: timedelta = -SECOND, life: timedelta = DAY
) -> Certificate:
    subject = CertificateSubject(USER, GROUPS)
    validity = Validity(NOW + begins, NOW + begins + life)
    return AUTHORITY.issue(CertificateTemplate(KEY.public, subject, validity, usages))


def in_status(certificate: Certificate) -> dict[str, str]:
    return {"certificate": base64.b64encode(certificate.pem).decode()}


@pytest.mark.parametrize(
    ("certificate", "objection"),
    [
        pytest.param(certificate_of(SERVING_USAGES), "client authentication", id="for servers"),
        pytest.param(certificate_of(begins=-2 * DAY), "expired", id="expired"),
        pytest.param(certificate_of(life=DAY + timedelta(hours=1)), "longer than was requested", id="for too long"),
    ],
)
def test_certificate_with_a_defect_is_refused_when_it_is_issued(certificate: Certificate, objection: str) -> None:
    spec = certificate_spec(WANTED, KEY, DAY)

    answer = decide_request_outcome(spec, KEY, decided("Approved", in_status(certificate)), now=NOW)

    assert isinstance(answer, Pending)
    assert (answer.reason, answer.failed) == ("CertificateMismatch", True)
    assert objection in answer.message


def held(certificate: Certificate, key: PrivateKey = KEY) -> dict[str, bytes]:
    return {"tls.key": key.pem.reveal(), "tls.crt": certificate.pem}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(held(certificate_of(SERVING_USAGES)), id="for servers"),
        pytest.param(held(certificate_of(begins=-2 * DAY)), id="expired"),
        pytest.param(held(certificate_of(), PrivateKey.generate()), id="of no key"),
        pytest.param({}, id="nothing"),
        pytest.param({**held(certificate_of()), "tls.crt": b"no certificate"}, id="unreadable"),
    ],
)
def test_certificate_with_a_defect_is_not_used_when_it_is_held(data: dict[str, bytes]) -> None:
    assert assess_certificate(WANTED, data, now=NOW).valid is None


@pytest.mark.parametrize(
    ("behind", "is_replaced"),
    [
        pytest.param(timedelta(0), True, id="clocks agree"),
        pytest.param(10 * MINUTE, False, id="another certificate would begin even later for the hub"),
    ],
)
async def test_certificate_that_the_hub_refuses_is_replaced_unless_it_begins_later(
    behind: timedelta, *, is_replaced: bool
) -> None:
    async def hub(_: Request) -> Response:
        return Response(401, (("Date", http_date((NOW - behind).timestamp())),), b"{}")

    certificate, evidence = certificate_of(begins=-5 * MINUTE), TokenEvidence()
    held_certificates = [ClientCertificate(certificate.pem, KEY.pem)]
    learn = learn_certificates_by_use(
        evidence, lambda: held_certificates, lambda _: Client.from_handler(hub, now=NOW.timestamp)
    )

    await learn(NOW)

    assert evidence.refused_certificates.keys() == ({certificate_id(certificate.der)} if is_replaced else set())


async def test_certificates_are_seldom_replaced_while_the_hub_refuses_every_one() -> None:
    statuses, evidence, held_certificates = [401], TokenEvidence(), list[ClientCertificate]()

    async def hub(_: Request) -> Response:
        return Response(statuses[-1], body=b"{}")

    learn = learn_certificates_by_use(evidence, lambda: held_certificates, lambda _: Client.from_handler(hub))

    async def is_replaced(looked: datetime) -> bool:
        held_certificates[:] = [ClientCertificate(certificate_of(begins=looked - NOW).pem, KEY.pem)]
        await learn(looked)
        return evidence.take_news()

    day = [NOW + number * 5 * MINUTE for number in range(288)]
    assert sum([await is_replaced(looked) for looked in day]) == 10
    statuses.append(200)
    assert not await is_replaced(day[-1] + 5 * MINUTE)
    statuses.append(401)
    assert await is_replaced(day[-1] + 10 * MINUTE)


def test_certificate_of_an_authority_is_never_used() -> None:
    wanted = WantedCredential("edge", CredentialSubject(USER))
    authority = Authority.make(USER, now=NOW, key=KEY).certificate

    answer = decide_request_outcome(
        certificate_spec(wanted, KEY), KEY, decided("Approved", in_status(authority)), now=NOW
    )

    assert isinstance(answer, Pending)
    assert (answer.reason, "authority" in answer.message) == ("CertificateMismatch", True)
    assert assess_certificate(wanted, held(authority), now=NOW).valid is None


def test_agent_whose_clock_is_behind_takes_a_certificate_that_begins_in_its_future() -> None:
    spec, certificate = certificate_spec(WANTED, KEY, DAY), certificate_of(begins=timedelta(hours=1))

    answer = decide_request_outcome(spec, KEY, decided("Approved", in_status(certificate)), now=NOW)

    assert isinstance(answer, NewCredential)
    assert answer.expires_at == certificate.not_after


def test_held_certificate_stays_in_use_when_the_clock_is_set_back() -> None:
    certificate = certificate_of()

    kept = assess_certificate(WANTED, held(certificate), now=NOW - timedelta(hours=1)).valid

    assert kept is not None
    assert (kept.issued_at, kept.expires_at) == (certificate.not_before, certificate.not_after)


def test_held_certificate_stays_in_use_until_one_of_a_shorter_life_is_issued() -> None:
    found = assess_certificate(WANTED, held(certificate_of(life=365 * DAY)), now=NOW, lifetime=DAY)

    assert found.decision == Obtain(Reason.LIFETIME_LOWERED)
    assert found.valid is not None


def issued(key: PublicKey = KEY.public, user: str = USER) -> dict[str, str]:
    certificate = AUTHORITY.issue_client(key, CertificateSubject(user, GROUPS), now=NOW, lifetime=timedelta(days=1))
    return {"certificate": base64.b64encode(certificate.pem).decode()}


@pytest.mark.parametrize(
    ("request_", "seen_for", "reason"),
    [
        pytest.param(decided("Denied"), AT_ONCE, "CSRDenied", id="denied just now"),
        pytest.param(decided("Denied", since=DAY), AT_ONCE, "CSRDenied", id="denied by a hub whose clock is behind"),
        pytest.param(decided("Denied"), RETRY_AFTER_REFUSAL - SECOND, "CSRDenied", id="denied a while ago"),
        pytest.param(decided("Failed"), AT_ONCE, "CSRFailed", id="not signed"),
        pytest.param(decided("Approved", issued(user="other")), AT_ONCE, "CertificateMismatch", id="for others"),
        pytest.param(
            decided("Approved", issued(PrivateKey.generate().public)),
            AT_ONCE,
            "CertificateMismatch",
            id="of no key",
        ),
    ],
)
def test_agent_waits_with_the_key_that_was_refused(request_: Object, seen_for: timedelta, reason: str) -> None:
    answer = decide_request_outcome(certificate_spec(WANTED, KEY), KEY, request_, now=NOW, decided_for=seen_for)

    recheck = RETRY_AFTER_REFUSAL - seen_for
    assert answer == Pending(reason, getattr(answer, "message", ""), recheck=recheck, failed=True)


@pytest.mark.parametrize(
    ("seen_for", "reason"),
    [
        pytest.param(ISSUANCE_TIMEOUT - SECOND, "AwaitingCertificate", id="approved a while ago"),
        pytest.param(ISSUANCE_TIMEOUT, "CertificateNotIssued", id="never signed"),
    ],
)
def test_approved_request_that_no_signer_answers_is_a_failure_in_the_end(seen_for: timedelta, reason: str) -> None:
    unsigned = decided("Approved", since=DAY)

    answer = decide_request_outcome(certificate_spec(WANTED, KEY), KEY, unsigned, now=NOW, decided_for=seen_for)

    assert isinstance(answer, Pending)
    assert answer.reason == reason


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(decided("Denied"), id="denied long ago"),
        pytest.param(decided("Failed"), id="not signed long ago"),
        pytest.param(decided("Approved", issued(user="other")), id="for others, long ago"),
    ],
)
def test_another_key_is_asked_about_once_the_refusal_has_had_its_time(request_: Object) -> None:
    seen_for = RETRY_AFTER_REFUSAL

    answer = decide_request_outcome(certificate_spec(WANTED, KEY), KEY, request_, now=NOW, decided_for=seen_for)

    assert isinstance(answer, Pending)
    assert answer.recheck == timedelta(0)
    assert PrivateKey.from_pem(answer.keep["pending.key"]).public != KEY.public


def test_the_certificate_that_was_asked_for_is_taken_with_its_key() -> None:
    answer = decide_request_outcome(certificate_spec(WANTED, KEY), KEY, decided("Approved", issued()), now=NOW)

    assert isinstance(answer, NewCredential)
    assert set(answer.data) == {"tls.key", "tls.crt"}
    assert answer.data["tls.key"] == KEY.pem.reveal()


def test_undecided_request_is_waited_for() -> None:
    answer = decide_request_outcome(certificate_spec(WANTED, KEY), KEY, request_manifest(WANTED, KEY), now=NOW)

    assert isinstance(answer, Pending)
    assert (answer.reason, answer.failed, answer.keep) == ("AwaitingHubApproval", False, {})
    assert request_manifest(WANTED, KEY)["metadata"]["labels"] == {Label.CLUSTER_NAME: "edge"}


@pytest.mark.parametrize(
    ("waited", "recheck"),
    [
        pytest.param(None, RECHECK_INTERVAL, id="not known since when"),
        pytest.param(-DAY, RECHECK_INTERVAL, id="since the future, by a clock that is behind"),
        pytest.param(SECOND, RECHECK_INTERVAL, id="just sent"),
        pytest.param(timedelta(hours=1), timedelta(minutes=15), id="for an hour"),
        pytest.param(DAY, LONGEST_RECHECK_INTERVAL, id="for a day"),
    ],
)
def test_longer_a_request_waits_the_later_it_is_looked_at(waited: timedelta | None, recheck: timedelta) -> None:
    request = request_manifest(WANTED, KEY)
    if waited is not None:
        request["metadata"]["creationTimestamp"] = rfc3339(NOW - waited)

    answer = decide_request_outcome(certificate_spec(WANTED, KEY), KEY, request, now=NOW)

    assert isinstance(answer, Pending)
    assert answer.recheck == recheck


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


class StoppedClock:
    def now(self) -> datetime:
        return NOW


async def refuse(_: Request) -> Response:
    return Response(403)


def nothing(_resource: Resource, _scope: WatchScope, _reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    raise AssertionError("nothing is watched")


def driver_of(signer: str) -> CertificateAgentDriver:
    hub = Client.from_handler(refuse)
    return CertificateAgentDriver(hub, Cache(nothing), StoppedClock(), endpoint_signer=signer)


@pytest.mark.parametrize(
    ("signer", "beside", "is_used"),
    [
        pytest.param("", {"config.yaml": b"url: hub:443"}, False, id="of a gRPC server at the API server"),
        pytest.param("open-cluster-management.io/grpc", {}, False, id="of the API server at a gRPC server"),
        pytest.param("", {}, True, id="of the API server at the API server"),
        pytest.param("open-cluster-management.io/grpc", {"config.yaml": b"url: hub:443"}, True, id="of a gRPC server"),
    ],
)
def test_certificate_of_another_driver_is_not_used(signer: str, beside: dict[str, bytes], is_used: object) -> None:
    assert (driver_of(signer).assess(WANTED, {**held(certificate_of()), **beside}) is not None) == is_used


def test_certificate_of_an_addon_is_used_whatever_lies_beside_it() -> None:
    wanted = replace(WANTED, addon="reporter")

    assert driver_of("").assess(wanted, {**held(certificate_of()), "config.yaml": b"theirs"}) is not None


@dataclass
class MovingClock:
    instant: datetime = NOW

    def now(self) -> datetime:
        return self.instant


class DeniedRequests(Cache):
    """Holds every request, denied by a hub whose clock is an hour behind."""

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        return {**decided("Denied", since=timedelta(hours=1)), "metadata": {"name": key.name}}


async def test_each_of_several_denied_addons_waits_by_the_clock_of_the_agent() -> None:
    clock = MovingClock()
    agent = CertificateAgentDriver(Client.from_handler(refuse), DeniedRequests(nothing), clock)
    addons = [replace(WANTED, addon=name) for name in ("reporter", "collector")]
    pending = {"pending.key": KEY.pem.reveal()}

    first = [await agent.obtain(wanted, pending) for wanted in addons]
    clock.instant += RETRY_AFTER_REFUSAL
    second = [await agent.obtain(wanted, pending) for wanted in addons]

    assert [answer.recheck for answer in first if isinstance(answer, Pending)] == [RETRY_AFTER_REFUSAL] * 2
    assert [bool(answer.keep) for answer in (*first, *second) if isinstance(answer, Pending)] == [False] * 2 + [
        True
    ] * 2
