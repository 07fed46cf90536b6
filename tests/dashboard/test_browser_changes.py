"""How the pages follow the hub, in a real Chromium: row by row, and across broken connections."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect
from tests.dashboard.browsing import FIRST_ROW, Visit, signed_in, visit
from tests.dashboard.connection_breaker import breakable
from tests.dashboard.harness import ShiftedClock, a_person, read
from tests.dashboard.test_board import set_conditions
from tests.helpers.credential_fleet import CredentialFleet, a_condition
from tests.helpers.server_decision import grant

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS
from watchword.dashboard.viewers import REVIEWED_EVERY
from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded"), pytest.mark.timeout(300)]

SILENT = a_condition(ConditionType.AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped", "went silent")
CLUSTER_GROUP = "cluster.open-cluster-management.io"
NAME = "line.querySelector('.cluster-cell').textContent"
ROWS = "document.querySelectorAll('.grid-body [role=row]')"
MARK = f"() => {ROWS}.forEach((line) => (line.marked = {NAME}))"
LISTED = f"() => [...{ROWS}].map((line) => {NAME})"
STILL_MARKED = f"() => [...{ROWS}].filter((line) => line.marked === {NAME}).map((line) => {NAME})"

SHUFFLE = """async () => {
  const { View } = await import("/assets/view.js");
  const view = new View((row) => row.held, "key");
  const [rows, wrong] = [new Map(), []];
  let seed = 1;
  const draw = (below) => (seed = (seed * 48271) % 2147483647) % below;
  for (let step = 0; step < 500; step += 1) {
    const id = draw(60);
    if (rows.has(id)) view.remove(rows.get(id));
    rows.delete(id);
    if (draw(3)) {
      rows.set(id, { id, held: draw(4) > 0, key: `${String(draw(90)).padStart(3, "0")} ${id}` });
      view.add(rows.get(id));
    }
    if (draw(2)) continue;
    const expected = [...rows.values()].filter((row) => row.held).sort((one, other) => (one.key < other.key ? -1 : 1));
    const listed = view.list();
    if (listed.length !== expected.length || listed.some((row, at) => row !== expected[at])) wrong.push(step);
  }
  return wrong;
}"""


async def add_clusters(hub: CredentialFleet, count: int) -> None:
    for number in range(1, count + 1):
        await hub.cluster(f"edge-{number}")


async def open_clusters(visited: Visit, count: int) -> None:
    """Open the table of clusters, and mark the element of each row with the cluster that it shows."""
    await visited.open("#/clusters")
    await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", str(count + 1))
    await visited.page.evaluate(MARK)


async def test_change_of_one_cluster_moves_its_row_and_leaves_the_elements_of_all_rows(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await add_clusters(hub, 5)

    async with signed_in(plane, browser) as visited:
        await open_clusters(visited, 5)
        await set_conditions(hub.client, "edge-4", SILENT)
        await expect(visited.page.locator(FIRST_ROW)).to_contain_text("went silent")

        order = ["edge-4", "edge-1", "edge-2", "edge-3", "edge-5"]
        await visited.computes(LISTED, order)
        await visited.computes(STILL_MARKED, order)


async def test_focus_stays_on_its_row_when_another_moves_above_it(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await add_clusters(hub, 5)

    async with signed_in(plane, browser) as visited:
        await open_clusters(visited, 5)
        await visited.page.locator("[role=row][aria-rowindex='3']").focus()
        await set_conditions(hub.client, "edge-4", SILENT)
        await expect(visited.page.locator(FIRST_ROW)).to_contain_text("went silent")

        await expect(visited.page.locator(":focus")).to_have_attribute("aria-rowindex", "4")
        await expect(visited.page.locator(":focus")).to_contain_text("edge-2")
        await visited.page.keyboard.press("ArrowDown")
        await expect(visited.page.locator(":focus")).to_contain_text("edge-3")


async def test_rows_in_view_stay_where_they_are_when_others_are_added_above(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.many(60)

    async with signed_in(plane, browser) as visited:
        await open_clusters(visited, 60)
        grid = visited.page.get_by_role("grid")
        await grid.evaluate("(grid) => (grid.scrollTop = 20 * 28)")
        row = visited.page.get_by_role("row").filter(has_text="cluster-0030")
        before = await row.bounding_box()
        await hub.waiting_cluster("edge-1")
        await expect(grid).to_have_attribute("aria-rowcount", "62")

        assert await row.bounding_box() == before


async def test_withdrawn_right_removes_the_rows_from_the_page(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    await hub.cluster("edge-1")
    person, token = await a_person(plane, "viewer")
    user, clock = f"system:serviceaccount:{person.namespace}:viewer", ShiftedClock(plane.clock)
    await grant(hub.client, ObjectKey.cluster("viewer"), [read("managedclusters", CLUSTER_GROUP)], user)

    async with visit(plane, browser, login=True, clock=clock) as visited:
        await visited.page.goto(visited.served.url)
        await visited.page.get_by_label("Bearer token").fill(token)
        await visited.page.get_by_role("button", name="Sign in").click()
        await visited.page.wait_for_selector("main h1")
        await open_clusters(visited, 1)
        await hub.client.delete(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster("viewer"))
        clock.shift = REVIEWED_EVERY + timedelta(seconds=1)
        await set_conditions(hub.client, "edge-1", SILENT)
        await expect(visited.page.get_by_text("There are no clusters.")).to_be_visible()

        await visited.computes(LISTED, [])
        assert "edge-1" not in await visited.page.content()


async def test_page_is_up_to_date_without_duplicates_after_a_broken_connection(
    plane: Plane, hub: CredentialFleet, browser: Browser
) -> None:
    for number in range(1, 6):
        await hub.cluster(f"edge-{number}")

    async with visit(plane, browser) as visited, breakable(urlsplit(visited.served.url).port or 0) as breaker:
        address = visited.served.address().replace(f":{breaker.target}", f":{breaker.port}")
        await visited.page.goto(address)
        await visited.page.wait_for_selector("main h1")
        await visited.page.locator("[data-page=clusters]").click()
        await expect(visited.page.get_by_role("grid")).to_have_attribute("aria-rowcount", "6")
        await visited.page.evaluate(MARK)
        breaker.break_connections()
        await expect(visited.page.locator("[data-state=reconnecting]")).to_be_visible()
        await hub.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster("edge-2"))
        await hub.cluster("edge-6")
        await set_conditions(hub.client, "edge-4", SILENT)
        breaker.broken = False
        await expect(visited.page.get_by_text("went silent")).to_be_visible()

        await visited.computes(LISTED, ["edge-4", "edge-1", "edge-3", "edge-5", "edge-6"])
        await visited.computes(STILL_MARKED, ["edge-4", "edge-1", "edge-3", "edge-5"])


async def test_rows_that_come_and_go_stay_in_order(plane: Plane, hub: CredentialFleet, browser: Browser) -> None:
    async with signed_in(plane, browser) as visited:
        wrong = await visited.page.evaluate(SHUFFLE)

        assert wrong == []
