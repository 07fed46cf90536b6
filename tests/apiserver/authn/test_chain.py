"""The order of credentials: none, good, bad, and a bad one beside a good one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.http import Peer
from watchword.api.sensitive import Sensitive
from watchword.apiserver.access.chain import (
    CertificateAuthenticator,
    RequestAuthenticator,
    StaticToken,
    StaticTokenAuthenticator,
    TokenChain,
)
from watchword.apiserver.serving.model import ApiError, HandlerRequest, RequestInfo, User
from watchword.pki.authority import Authority, CertificateTemplate, choose_validity
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import SERVING_USAGES, CertificateSubject

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
OURS = Authority.make("ours", now=NOW - 10 * DAY)
THEIRS = Authority.make("theirs", now=NOW - 10 * DAY)
ADMIN = User("admin", groups=("system:masters",))


def _client(authority: Authority, *, issued: datetime = NOW, name: str = "bob") -> bytes:
    subject = CertificateSubject(name, ("dev", "ops"))
    return authority.issue_client(PrivateKey.generate().public, subject, now=issued, lifetime=DAY).der


def _serving() -> bytes:
    validity = choose_validity(now=NOW, lifetime=DAY, signer_not_after=OURS.certificate.not_after)
    return OURS.issue(
        CertificateTemplate(PrivateKey.generate().public, CertificateSubject("bob"), validity, SERVING_USAGES)
    ).der


def _authentication() -> RequestAuthenticator:
    static = StaticTokenAuthenticator((StaticToken(Sensitive("s3cret"), ADMIN),))
    certificates = CertificateAuthenticator(lambda: [OURS.certificate], now=lambda: NOW)
    return RequestAuthenticator(TokenChain((static,), ("api",)), certificates)


def _request(*chain: bytes, authorization: str = "") -> HandlerRequest:
    headers = (("authorization", authorization),) if authorization else ()
    return HandlerRequest(RequestInfo("get", "/"), "GET", (), headers, b"", Peer("", chain))


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer  s3cret", "bearer "])
async def test_request_without_a_credential_has_no_user(header: str) -> None:
    assert await _authentication()(_request(authorization=header)) is None


@pytest.mark.parametrize(
    ("chain", "authorization"),
    [
        pytest.param((), "Bearer wrong", id="unknown token"),
        pytest.param((), "Bearer s3cret2", id="longer token"),
        pytest.param((_client(THEIRS),), "", id="certificate of another authority"),
        pytest.param((_client(OURS, issued=NOW - 3 * DAY),), "", id="expired certificate"),
        pytest.param((_client(OURS, issued=NOW + DAY),), "", id="certificate of tomorrow"),
        pytest.param((_serving(),), "", id="certificate for servers"),
        pytest.param((b"not a certificate",), "", id="garbage"),
        pytest.param((_client(THEIRS),), "Bearer wrong", id="both bad"),
    ],
)
async def test_bad_credentials_are_refused_not_anonymous(chain: tuple[bytes, ...], authorization: str) -> None:
    with pytest.raises(ApiError) as refusal:
        await _authentication()(_request(*chain, authorization=authorization))

    assert (refusal.value.code, refusal.value.message) == (401, "Unauthorized")


async def test_certificate_names_user_groups_and_credential() -> None:
    user = await _authentication()(_request(_client(OURS)))

    assert user is not None
    assert (user.name, set(user.groups)) == ("bob", {"dev", "ops", "system:authenticated"})
    assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


@pytest.mark.parametrize("chain", [(), (_client(THEIRS),)], ids=["token alone", "beside a bad certificate"])
async def test_good_token_names_its_user(chain: tuple[bytes, ...]) -> None:
    user = await _authentication()(_request(*chain, authorization="Bearer s3cret"))

    assert user == User("admin", groups=("system:masters", "system:authenticated"))


async def test_good_certificate_wins_over_any_token() -> None:
    user = await _authentication()(_request(_client(OURS), authorization="Bearer wrong"))

    assert user is not None
    assert user.name == "bob"


async def test_certificate_without_a_common_name_is_no_credential() -> None:
    assert await _authentication()(_request(_client(OURS, name=""))) is None


async def test_remembered_certificate_ends_with_its_validity_and_with_its_authority() -> None:
    clock, trusted = [NOW], [[OURS.certificate]]
    certificates = CertificateAuthenticator(lambda: trusted[0], now=lambda: clock[0])
    authentication = RequestAuthenticator(TokenChain((), ("api",)), certificates)
    request = _request(_client(OURS))
    assert await authentication(request) is not None

    trusted[0] = [THEIRS.certificate]
    with pytest.raises(ApiError):
        await authentication(request)
    trusted[0], clock[0] = [OURS.certificate], NOW + 2 * DAY
    with pytest.raises(ApiError):
        await authentication(request)
