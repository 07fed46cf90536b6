"""The dashboard on a socket, and a page of a real browser that looks at it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from playwright.async_api import Browser, Page, TimeoutError, expect  # noqa: A004 - its own

from watchword.dashboard.process import DashboardOptions, ServedDashboard, observe_readable, serve_dashboard
from watchword.runtime.clock import Clock
from watchword.testing.plane import Plane

FIRST_ROW = "[role=row][aria-rowindex='2']"
PATIENCE = 60_000  # milliseconds: a busy machine is slow, and no test waits for its own sake
INTERRUPTED = "net::ERR_NETWORK_CHANGED"  # an interface of this machine came or went: Chromium repeats its requests
expect.set_options(timeout=PATIENCE)


@dataclass
class Visit:
    """A page that notes everything that should not happen in it."""

    served: ServedDashboard
    page: Page
    problems: list[str] = field(default_factory=list)

    def note(self, problem: str) -> None:
        if INTERRUPTED not in problem:
            self.problems.append(problem)

    async def open(self, path: str) -> None:
        """Open a page of the dashboard by its address; the page before it is gone then."""
        await self.page.goto(f"{self.served.url}{path}")
        await self.page.wait_for_selector("main h1")
        first = re.split("[/?]", path.removeprefix("#/"))[0] or "overview"
        if re.fullmatch("[a-z-]+", first):
            await expect(self.page.locator(f"[data-page={first}]")).to_have_attribute("aria-current", "page")

    async def computes(self, function: str, expected: object) -> None:
        """Wait until a function returns this in the page, which may be rendered in several steps."""
        wanted = json.dumps(json.dumps(expected, separators=(",", ":")))
        with suppress(TimeoutError):  # the next line says what it returns instead
            await self.page.wait_for_function(f"() => JSON.stringify(({function})()) === {wanted}")
        assert await self.page.evaluate(function) == expected

    async def shows(self, text: str) -> None:
        """Wait until the page shows a text: a heading may be there before what stands below it."""
        await expect(self.page.locator("main")).to_contain_text(text)


@asynccontextmanager
async def visit(
    plane: Plane, browser: Browser, *, login: bool = False, clock: Clock | None = None
) -> AsyncIterator[Visit]:
    """Serve the dashboard on loopback, and open a page of the browser."""
    options = DashboardOptions(login=login)
    async with (
        observe_readable(plane.client()) as observer,
        serve_dashboard(plane.client(), observer, options, clock=clock or plane.clock) as served,
    ):
        context = await browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        visited = Visit(served, page)
        page.on("pageerror", lambda error: visited.problems.append(str(error)))
        page.on("console", lambda message: visited.note(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: visited.problems.append(dialog.message))
        yield visited
        await context.close()


@asynccontextmanager
async def signed_in(plane: Plane, browser: Browser) -> AsyncIterator[Visit]:
    """Open the one-time address in the browser."""
    async with visit(plane, browser) as visited:
        await visited.page.goto(visited.served.address())
        await visited.page.wait_for_selector("main h1")
        yield visited
        assert visited.problems == [], visited.problems
