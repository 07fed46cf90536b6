"""How a token is requested, and what happens when the hub refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from msgspec.structs import replace
from tests.addons.token.test_token_decisions import a_token, wanted

from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.token.agent import (
    LONGEST_RETRY_DELAY,
    TOKEN,
    TRANSIENT_RETRY_DELAY,
    TokenAgentDriver,
    choose_retry_delay,
)
from watchword.api.http import Request, Response
from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.credentials.driver import NewCredential, Pending, ValidCredential
from watchword.credentials.errors import UnknownDriver
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable
from watchword.registration.catalog import CATALOG
from watchword.testing.virtual_time import VirtualClock

LIFE = timedelta(days=1)
LATER = datetime(2030, 1, 1, tzinfo=UTC)


class Hub:
    """Responds to token requests as configured."""

    def __init__(self, answer: Callable[[Object], Response]) -> None:
        self.answer = answer
        self.asked: list[Object] = []
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.driver = TokenAgentDriver(Client.from_handler(self.handle), self.clock, LIFE)

    async def handle(self, request: Request) -> Response:
        assert request.path == "/api/v1/namespaces/c1/serviceaccounts/c1-a-agent/token"
        self.asked.append(orjson.loads(request.body))
        return self.answer(self.asked[-1])


def granting(token: str, expires: datetime) -> Response:
    status = {"token": token, "expirationTimestamp": rfc3339(expires)}
    return Response(201, body=orjson.dumps({"kind": "TokenRequest", "status": status}))


def refusing(code: int, reason: str, message: str) -> Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return Response(code, body=orjson.dumps(status))


def an_honest_hub() -> Hub:
    def grant(_: Object) -> Response:
        now = hub.clock.now()
        return granting(a_token(issued=now, life=LIFE), now + LIFE)

    hub = Hub(grant)
    return hub


def unreachable(_: Object) -> Response:
    raise Unreachable("connection refused", maybe_processed=False)


async def test_token_is_requested_for_that_account_without_an_audience() -> None:
    hub = an_honest_hub()

    answer = await hub.driver.obtain(wanted(), {})

    assert isinstance(answer, NewCredential)
    assert hub.asked[0]["metadata"] == {"uid": "u1"}
    assert hub.asked[0]["spec"] == {"expirationSeconds": 86400, "audiences": []}
    assert "token" not in repr(answer).lower().replace("the token of", "")


async def test_good_token_is_kept_without_asking_until_its_instant() -> None:
    hub = an_honest_hub()
    issued = await hub.driver.obtain(wanted(), {})
    assert isinstance(issued, NewCredential)

    kept = await hub.driver.obtain(wanted(), issued.data)
    assert isinstance(kept, ValidCredential)
    assert (len(hub.asked), kept.message) == (1, issued.message)

    assert kept.renew_at is not None
    await asyncio.sleep((kept.renew_at - hub.clock.now()).total_seconds())
    assert isinstance(await hub.driver.obtain(wanted(), issued.data), NewCredential)


async def test_nothing_is_asked_before_the_hub_names_the_account() -> None:
    hub = an_honest_hub()

    answer = await hub.driver.obtain(wanted(uid=""), {})

    assert isinstance(answer, Pending)
    assert (answer.reason, answer.failed, hub.asked) == ("AwaitingTokenInfrastructure", False, [])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(lambda _: refusing(401, "Unauthorized", "who"), "ClusterCredentialRefused", id="unknown cluster"),
        pytest.param(lambda _: refusing(403, "Forbidden", "no"), "TokenRequestForbidden", id="no right"),
        pytest.param(lambda _: refusing(404, "NotFound", "gone"), "ServiceAccountMissing", id="no account"),
        pytest.param(lambda _: refusing(409, "Conflict", "uid"), "ServiceAccountRecreated", id="another account"),
        pytest.param(lambda _: refusing(422, "Invalid", "too short"), "TokenRequestInvalid", id="too short a life"),
        pytest.param(lambda _: refusing(418, "Teapot", "tea"), "TokenCreationFailed", id="anything else"),
        pytest.param(unreachable, "HubUnreachable", id="no answer"),
        pytest.param(lambda _: granting("no.jwt.x", LATER), "TokenUnreadable", id="no token"),
        pytest.param(lambda _: granting(a_token(life=-LIFE), LATER), "TokenUnreadable", id="over before it began"),
        pytest.param(
            lambda _: granting(a_token(issued=datetime(2020, 1, 1, tzinfo=UTC)), LATER),
            "TokenAlreadyExpired",
            id="over already",
        ),
        pytest.param(
            lambda _: granting(a_token(uid="u9"), LATER), "ServiceAccountRecreated", id="token of another UID"
        ),
        pytest.param(
            lambda _: granting(a_token(user="system:serviceaccount:c1:other"), LATER),
            "TokenUnreadable",
            id="token of another account",
        ),
    ],
)
async def test_refusal_is_reported_and_not_repeated_at_once(answer: Callable[[Object], Response], reason: str) -> None:
    hub = Hub(answer)

    said = await hub.driver.obtain(wanted(), {})
    attempts = len(hub.asked)
    again = await hub.driver.obtain(wanted(), {})

    assert isinstance(said, Pending)
    assert (said.reason, said.failed, said.keep) == (reason, True, {})
    assert isinstance(again, Pending)
    assert again.message == said.message
    assert len(hub.asked) == attempts


async def test_endless_triggers_cause_few_requests() -> None:
    hub = Hub(lambda _: refusing(403, "Forbidden", "no"))

    for _ in range(600):
        await hub.driver.obtain(wanted(), {})
        await asyncio.sleep(0.1)

    assert len(hub.asked) <= 5


async def test_token_of_a_new_account_is_requested_immediately() -> None:
    hub = Hub(lambda _: refusing(409, "Conflict", "uid"))
    await hub.driver.obtain(wanted(), {})

    hub.answer = lambda _: granting(a_token(uid="u2", issued=hub.clock.now(), life=LIFE), hub.clock.now() + LIFE)
    answer = await hub.driver.obtain(wanted(uid="u2"), {TOKEN: b"old"})

    assert isinstance(answer, NewCredential)


async def test_early_renewal_is_honoured_once() -> None:
    hub = an_honest_hub()
    first = await hub.driver.obtain(wanted(), {})
    assert isinstance(first, NewCredential)

    asked = replace(wanted(), rotation="now")
    second = await hub.driver.obtain(asked, first.data)
    assert isinstance(second, NewCredential)

    assert isinstance(await hub.driver.obtain(asked, {**first.data, **second.data}), ValidCredential)


async def test_lifetime_that_is_not_given_is_a_year() -> None:
    hub = an_honest_hub()

    await TokenAgentDriver(hub.driver.hub, hub.clock).obtain(wanted(), {})

    assert hub.asked[0]["spec"]["expirationSeconds"] == 31536000


@pytest.mark.parametrize(
    ("failures", "transient", "seconds"),
    [
        pytest.param(1, False, 10, id="first"),
        pytest.param(2, False, 20, id="second"),
        pytest.param(99, False, 300, id="never longer"),
        pytest.param(1, True, 0.5, id="rights on their way"),
        pytest.param(2, True, 2, id="still on their way"),
        pytest.param(4, True, 32, id="not on their way"),
        pytest.param(99, True, 300, id="never to come"),
    ],
)
def test_choose_pause(failures: int, transient: bool, seconds: float) -> None:  # noqa: FBT001 - a column
    assert choose_retry_delay(failures, transient=transient) == timedelta(seconds=seconds) <= LONGEST_RETRY_DELAY


async def test_right_that_holds_a_moment_later_costs_a_moment() -> None:
    hub = Hub(lambda _: refusing(403, "Forbidden", "not yet"))
    said = await hub.driver.obtain(wanted(), {})
    assert isinstance(said, Pending)

    await asyncio.sleep(said.recheck.total_seconds())
    hub.answer = lambda _: granting(a_token(uid="u1", issued=hub.clock.now(), life=LIFE), hub.clock.now() + LIFE)

    assert said.recheck == TRANSIENT_RETRY_DELAY
    assert isinstance(await hub.driver.obtain(wanted(), {}), NewCredential)


def test_driver_is_for_addons_alone() -> None:
    assert ADDON_CATALOG.find("token").name == "token"
    with pytest.raises(UnknownDriver, match="choose one of aws-irsa, csr"):
        CATALOG.find("token")
