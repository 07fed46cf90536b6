"""The server as a function: every request gets a response, whatever happens inside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from watchword.api.http import Peer, Request, Response
from watchword.api.rate_limit import Rate
from watchword.apiserver.access.config import AccessControl
from watchword.apiserver.access.rbac import AuthorizationDecision
from watchword.apiserver.audit import audit_event
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.listener import RequestRateLimiter
from watchword.apiserver.serving.errors import unauthorized
from watchword.apiserver.serving.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.serving.server import CompletedRequest
from watchword.apiserver.store.memory import MemoryStore

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class AllowAll:
    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


async def by_header(request: HandlerRequest) -> User | None:
    shown = request.header("authorization")
    if shown == "wrong":
        raise unauthorized()
    return User(shown) if shown else None


async def broken(_: HandlerRequest) -> Response:
    raise RuntimeError("a secret detail")


def a_plane(**options: Any) -> ControlPlane:
    access = AccessControl(by_header, AllowAll(), paths={"/broken": broken})
    return ControlPlane(MemoryStore(), lambda: NOON, lambda _: access, **options)


async def test_internal_error_is_a_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    answer = await a_plane().handle(Request("GET", "/broken"))

    assert answer.status == 500
    assert b"secret" not in answer.body
    assert "a secret detail" in caplog.text


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param("abc", True, id="the client's own"),
        pytest.param("", False, id="none"),
        pytest.param("x" * 65, False, id="too long"),
        pytest.param("a\nb", False, id="breaks headers"),
    ],
)
async def test_every_answer_has_an_audit_id(sent: str, kept: bool) -> None:  # noqa: FBT001 - a row of the table
    answer = await a_plane().handle(Request("GET", "/version", headers=(("Audit-Id", sent),)))

    found = answer.header("Audit-Id")
    assert (found == sent) is kept
    assert found


async def test_responses_must_not_be_cached() -> None:
    assert (await a_plane().handle(Request("GET", "/version"))).header("Cache-Control") == "no-cache, private"


async def test_a_body_beyond_three_megabytes_is_refused() -> None:
    answer = await a_plane().handle(Request("POST", "/api/v1/namespaces", body=b" " * (3 * 1024 * 1024 + 1)))

    assert answer.status == 413
    assert orjson.loads(answer.body)["message"] == "Request entity too large: limit is 3145728"


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


async def codes(plane: ControlPlane, count: int, who: str = "", address: str = "10.0.0.1") -> list[int]:
    headers = (("Authorization", who),) if who else ()
    request = Request("GET", "/version", headers=headers, peer=Peer(address))
    return [(await plane.handle(request)).status for _ in range(count)]


async def test_unauthenticated_clients_are_limited_by_address() -> None:
    clock = Clock()
    plane = a_plane(limit=RequestRateLimiter(clock, anonymous=Rate(1, 2)))

    assert await codes(plane, 3) == [200, 200, 429]
    assert await codes(plane, 1, address="10.0.0.2") == [200]
    clock.time += 1
    assert await codes(plane, 2) == [200, 429]


async def test_users_are_limited_by_name_and_get_retry_after() -> None:
    plane = a_plane(limit=RequestRateLimiter(Clock(), users=Rate(0.1, 1)))

    assert await codes(plane, 2, "alice") == [200, 429]
    assert await codes(plane, 1, "bob") == [200]
    answer = await plane.handle(Request("GET", "/version", headers=(("Authorization", "alice"),)))
    assert answer.header("Retry-After") == "10"


@pytest.mark.parametrize(
    "path", ["/apis/certificates.k8s.io/v1/certificatesigningrequests", "/apis/events.k8s.io/v1/namespaces/ns/events"]
)
async def test_objects_that_clients_could_store_without_bound_are_limited_by_user(path: str) -> None:
    plane = a_plane(limit=RequestRateLimiter(Clock(), created=Rate(1, 2)))

    async def create(user: str) -> int:
        return (await plane.handle(Request("POST", path, headers=(("Authorization", user),), body=b"{}"))).status

    assert [await create("alice") == 429 for _ in range(3)] == [False, False, True]
    assert await create("bob") != 429
    assert await codes(plane, 2, "alice") == [200, 200]


async def test_wrong_credentials_are_limited_by_address() -> None:
    plane = a_plane(limit=RequestRateLimiter(Clock(), failures=Rate(1, 2)))

    assert await codes(plane, 4, "wrong") == [401, 401, 429, 429]
    assert await codes(plane, 1, "wrong", address="10.0.0.2") == [401]


async def test_valid_credential_is_accepted_while_its_address_sends_wrong_ones() -> None:
    plane = a_plane(limit=RequestRateLimiter(Clock(), failures=Rate(1, 2)))
    await codes(plane, 100, "wrong")

    assert await codes(plane, 2, "alice") == [200, 200]


async def test_audit_log_contains_user_and_request_but_no_content() -> None:
    seen: list[CompletedRequest] = []
    plane = a_plane(observe=seen.append)
    body = orjson.dumps({"metadata": {"name": "n"}, "stringData": {"password": "hunter2"}})
    headers = (("Authorization", "alice"), ("User-Agent", "tests/1"))
    await plane.handle(
        Request("POST", "/api/v1/namespaces/x/secrets", headers=headers, body=body, peer=Peer("10.1.1.1"))
    )

    event = audit_event(seen[0], "now")

    assert event["user"]["username"] == "alice"
    assert event["objectRef"] == {"resource": "secrets", "namespace": "x", "apiVersion": "v1"}
    assert (event["verb"], event["sourceIPs"], event["responseStatus"]["code"]) == ("create", ["10.1.1.1"], 404)
    assert b"hunter2" not in orjson.dumps(event)
