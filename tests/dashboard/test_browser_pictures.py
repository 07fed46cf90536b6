"""What the dashboard draws, in a real Chromium: bars, the time axis, and cards on phones."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, ViewportSize, expect
from tests.dashboard.browsing import FIRST_ROW, signed_in
from tests.helpers.credential_fleet import HOUR, CredentialFleet

from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded"), pytest.mark.timeout(300)]

PHONE: ViewportSize = {"width": 390, "height": 844}
FINGERPRINT = "8b4e637d3767638aa9c20103a702fabf3c1d22c45f23da5750a8e4f4064c0a1b"

SCALES = """async () => {
  const { Axis } = await import("/assets/axis.js");
  const hours = (count) => ({ issued: -3600, expires: count * 3600 });
  const fleets = { hours: [1, 8, 8], days: [24, 720], years: [8760, 87600], mixed: [8, 24, 8760, 8760, 8760, 87600] };
  return Object.entries(fleets).map(([name, lives]) => {
    const axis = new Axis();
    axis.fit(lives.map(hours), 0);
    const places = axis.labels().map(([at]) => at);
    const apart = Math.min(...places.slice(1).map((at, number) => at - places[number]), 100 - places.at(-1));
    const shortest = axis.place(lives[0] * 3600, 0) - axis.place(0, 0);
    return [name, axis.labels().at(-1)[1], apart >= 15, shortest > 5];
  });
}"""
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(".tick")].map((tick) => {
    const range = document.createRange();
    range.selectNodeContents(tick);
    return range.getBoundingClientRect();
  });
  const end = document.querySelector(".grid-head .axis").getBoundingClientRect().right;
  return boxes.filter((box, number) => box.right > (boxes[number + 1]?.left ?? end)).length;
}"""
FIRST_LINE = f"""() => {{
  const cells = [...document.querySelectorAll("{FIRST_ROW} .cell")].filter((cell) => cell.offsetParent);
  const top = Math.min(...cells.map((cell) => cell.offsetTop));
  const line = cells.filter((cell) => cell.offsetTop === top).sort((one, other) => one.offsetLeft - other.offsetLeft);
  return line.map((cell) => cell.dataset.title);
}}"""
CUT = """() => [...document.querySelectorAll(".holder, .subject")]
  .filter((cell) => cell.offsetParent && cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""


async def test_axis_shows_hours_and_years_and_its_labels_stand_apart(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        assert await visited.page.evaluate(SCALES) == [
            ["hours", "+6h", True, True],
            ["days", "+7d", True, True],
            ["years", "+3y", True, True],
            ["mixed", "+1y", True, True],
        ]
        for width in (800, 1360, 1920):
            await visited.page.set_viewport_size({"width": width, "height": 900})
            await visited.open("#/credentials")
            await visited.page.wait_for_selector(FIRST_ROW)
            await visited.computes(OVERLAPS, 0)


async def test_holder_and_subject_are_whole_and_notes_take_room_only_where_there_are_some(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.cluster("edge-1")
    await hub.addon("edge-1")
    await hub.account("edge-1")

    async with signed_in(plane, browser) as visited:
        await visited.page.set_viewport_size({"width": 1360, "height": 900})
        await visited.open("#/credentials")
        await visited.page.wait_for_selector(FIRST_ROW)
        await visited.computes(CUT, [])
        await expect(visited.page.get_by_role("columnheader", name="Note")).to_be_hidden()
        await hub.cluster("edge-2", age=25 * HOUR)

        await expect(visited.page.get_by_role("columnheader", name="Note")).to_be_visible()


@pytest.mark.parametrize("page", ["#/credentials", "#/accounts"])
async def test_cards_on_a_phone_begin_with_the_time_left_and_the_renewal(
    plane: Plane, hub: CredentialFleet, browser: Browser, page: str
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        await visited.page.set_viewport_size(PHONE)
        await visited.open(page)
        await visited.page.wait_for_selector(FIRST_ROW)

        await visited.computes(FIRST_LINE, ["Left", "Renewal", "Health"])
        await visited.computes("() => document.documentElement.scrollWidth", PHONE["width"])
        await visited.computes("() => document.querySelector('.grid').scrollWidth < innerWidth", expected=True)


async def test_bar_of_each_kind_leads_to_its_rows_in_that_state(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        kinds = visited.page.get_by_role("list", name="Health of each kind").locator("li")
        await expect(kinds).to_have_count(8)
        await expect(kinds.filter(has_text="Account token")).to_contain_text("1 expired")
        await kinds.filter(has_text="cluster certificate").get_by_role("link", name="1 overdue").click()

        await expect(visited.page.locator(FIRST_ROW)).to_contain_text("agent of edge-7")
        await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", "2")


async def test_join_token_that_ends_needs_no_person(plane: Plane, hub: CredentialFleet, browser: Browser) -> None:
    await hub.cluster("edge-1")
    await hub.join_token()

    async with signed_in(plane, browser) as visited:
        days = visited.page.get_by_role("list", name="Renewals and ends by day")

        await expect(days.locator("li").first).to_contain_text("1 end, as planned")
        await expect(days).not_to_contain_text("need action")


async def test_accounts_and_pull_secrets_have_pages_of_their_own(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.everything()

    async with signed_in(plane, browser) as visited:
        await visited.page.get_by_role("link", name="Accounts", exact=True).click()
        await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", "3")
        await visited.shows("watchword serviceaccount show robot")
        await visited.page.get_by_role("link", name="Pull secrets", exact=True).click()
        await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", "2")

        await visited.shows("account shop/default")


async def test_lost_lease_is_a_warning_and_fingerprints_are_short(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.cluster("edge-1", available="Unknown", said="went silent")
    await hub.event("edge-1", f"uses credential X509SHA256={FINGERPRINT}")

    async with signed_in(plane, browser) as visited:
        events = visited.page.get_by_label("List of events")
        await expect(events.locator("tr").filter(has_text="went silent")).to_contain_text("Warning")
        await expect(events).to_contain_text(f"X509SHA256={FINGERPRINT[:8]}…")
        await expect(events).not_to_contain_text(FINGERPRINT)

        await expect(events.get_by_title(FINGERPRINT)).to_have_count(1)
