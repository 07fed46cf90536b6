"""A browser is signed in by a one-time address or a token, and requests of other sites are refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.dashboard.harness import HOST, DashboardHarness, a_person

from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.dashboard.process import DashboardOptions, NotLoopback, choose_cookie_name, require_loopback
from watchword.dashboard.viewers import Session, SessionStore
from watchword.kube.access_reviews import UserIdentity
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # hours pass, and the hub publishes an authority of its own


async def test_address_works_once_and_opens_a_session(dashboard: DashboardHarness) -> None:
    code = dashboard.code()

    opened = await dashboard.open_address()
    again = await dashboard.get(f"/?code={code}", Cookie="")

    assert (opened.status, again.status) == (200, 401)
    assert dashboard.code() != code
    assert (await dashboard.get("/")).status == 200


async def test_cookie_is_hidden_from_scripts_and_other_sites(dashboard: DashboardHarness) -> None:
    opened = await dashboard.open_address()

    _, *attributes = opened.header("Set-Cookie").split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert choose_cookie_name(secure=True).startswith("__Host-")


async def test_page_after_the_address_has_no_code_in_its_own(dashboard: DashboardHarness) -> None:
    opened = await dashboard.open_address()

    assert b'content="0; url=/"' in opened.body
    assert opened.header("Cache-Control") == "no-store"
    assert opened.header("Referrer-Policy") == "same-origin"


@pytest.mark.parametrize("path", ["/", "/api/live", "/api/clusters/edge-1"])
async def test_browser_that_is_not_signed_in_sees_nothing(dashboard: DashboardHarness, path: str) -> None:
    assert (await dashboard.get(path)).status == 401
    assert (await dashboard.get(path, Cookie="watchword=guessed")).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Host": "attacker.example"}, id="another name for this address"),
        pytest.param({"Host": "attacker.example:8080"}, id="another name with our port"),
        pytest.param({"Host": "127.0.0.1.attacker.example"}, id="a name that begins like ours"),
        pytest.param({"Host": ""}, id="no name"),
        pytest.param({"Origin": "http://attacker.example"}, id="script of another site"),
        pytest.param({"Origin": "null"}, id="script of a sandboxed page"),
        pytest.param({"Origin": "http://127.0.0.1:9090"}, id="script of another port"),
        pytest.param({"Sec_Fetch_Site": "cross-site"}, id="part of another site's page"),
        pytest.param({"Sec_Fetch_Site": "same-site"}, id="part of another port's page"),
    ],
)
async def test_request_that_was_not_meant_for_the_dashboard_is_refused(
    dashboard: DashboardHarness, headers: dict[str, str]
) -> None:
    await dashboard.open_address()

    assert (await dashboard.get("/api/live", **headers)).status == 403


@pytest.mark.parametrize("host", [HOST, "localhost:1234", "[::1]:8080", "127.0.0.1"])
async def test_every_name_of_loopback_is_served(dashboard: DashboardHarness, host: str) -> None:
    await dashboard.open_address()

    assert (await dashboard.get("/", Host=host, Sec_Fetch_Site="same-origin")).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"])
@pytest.mark.parametrize("path", ["/", "/api/live", "/api/clusters/edge-1", "/assets/main.js"])
async def test_nothing_can_be_changed(dashboard: DashboardHarness, method: str, path: str) -> None:
    await dashboard.open_address()

    answer = await dashboard.send(method, path, b"{}")

    assert (answer.status, answer.header("Allow")) == (405, "GET, HEAD")


async def test_session_ends_after_twelve_hours(dashboard: DashboardHarness) -> None:
    await dashboard.open_address()

    await asyncio.sleep(timedelta(hours=12).total_seconds())

    assert (await dashboard.get("/")).status == 401


def test_session_outlives_a_clock_that_is_set_back_and_ends_at_its_time() -> None:
    store, now = SessionStore(), datetime(2026, 3, 1, tzinfo=UTC)
    cookie = store.open(Session(UserIdentity("viewer"), now + timedelta(hours=12)))

    assert store.find("unknown", now + timedelta(days=1)) is None
    assert store.find(cookie, now - timedelta(days=1)) is not None
    assert store.find(cookie, now + timedelta(hours=11)) is not None
    assert store.find(cookie, now + timedelta(hours=12)) is None


async def test_signing_out_ends_the_session(dashboard: DashboardHarness) -> None:
    await dashboard.open_address()

    left = await dashboard.send("POST", "/logout")

    assert left.header("Set-Cookie").endswith("Max-Age=0")
    assert (await dashboard.get("/")).status == 401


async def test_token_that_the_server_refuses_does_not_sign_in(login_dashboard: DashboardHarness) -> None:
    refused = await login_dashboard.sign_in("not-a-token")

    assert (refused.header("Location"), refused.header("Set-Cookie")) == ("/login#refused", "")
    assert (await login_dashboard.get("/")).header("Location") == "/login"


async def test_one_time_codes_are_no_way_around_the_login(login_dashboard: DashboardHarness) -> None:
    answer = await login_dashboard.get(f"/?code={login_dashboard.code()}")

    assert (answer.status, answer.header("Location")) == (303, "/login")


@pytest.mark.parametrize("origin", ["", "http://attacker.example", "null"])
async def test_other_sites_cannot_sign_a_browser_in(
    plane: Plane, login_dashboard: DashboardHarness, origin: str
) -> None:
    _, token = await a_person(plane, "alice")

    answer = await login_dashboard.send("POST", "/login", f"token={token}".encode(), Origin=origin)

    assert (answer.status, answer.header("Set-Cookie")) == (403, "")


async def test_revoked_token_ends_the_session_and_its_stream(plane: Plane, login_dashboard: DashboardHarness) -> None:
    person, token = await a_person(plane, "alice")
    await login_dashboard.sign_in(token)

    async with login_dashboard.live() as live:
        first, _ = await live.event()
        await plane.client().delete(SERVICE_ACCOUNTS, person)
        last, _ = await live.change()

    assert (first, last) == ("board", "end")
    assert (await login_dashboard.get("/api/live")).status == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "hub.example", ""])
def test_own_rights_are_served_on_loopback_alone(host: str) -> None:
    with pytest.raises(NotLoopback, match="--login"):
        require_loopback(DashboardOptions((host, 0)))

    require_loopback(DashboardOptions((host, 0), login=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_is_accepted(host: str) -> None:
    require_loopback(DashboardOptions((host, 0)))
