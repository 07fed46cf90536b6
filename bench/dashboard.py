"""Measures the dashboard of a large fleet in a real Chromium: first paint, first rows, scrolling, search.

Run it with `python -m bench.dashboard --clusters 3000`; `--screenshots DIR` also writes a picture of each page.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from playwright.async_api import Page, async_playwright

from watchword.dashboard.board import build_board
from watchword.dashboard.process import DashboardOptions, observe_readable, serve_dashboard
from watchword.dashboard.sources import read_facts
from watchword.runtime.event_loop import run
from watchword.testing.credential_fleet import CredentialFleet
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane

FIRST_ROW = "[role=row][aria-rowindex='2']"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
SCROLL = """async () => {
  const grid = document.querySelector("[role=grid]");
  const frames = [];
  for (let frame = 0; frame < 120; frame += 1) {
    const began = performance.now();
    grid.scrollTop += 2800;
    grid.getBoundingClientRect();
    frames.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  return frames.sort((one, other) => one - other)[113];
}"""
LOOKS = {"light": (1440, 900, "light"), "dark": (1440, 900, "dark"), "narrow": (420, 800, "light")}
PAGES = {
    "overview": "#/",
    "credentials": "#/credentials",
    "clusters": "#/clusters",
    "add-ons": "#/add-ons",
    "cluster": "#/clusters/edge-6",
    "reasons": "#/reasons",
    "reason": "#/reasons/ManagedClusterLeaseUpdateStopped?cluster=edge-6",
}


def main() -> None:
    """Read the flags and run."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--clusters", type=int, default=3000)
    flags.add_argument("--screenshots", type=Path)
    chosen = flags.parse_args()
    run(measure(chosen.clusters, chosen.screenshots))


async def measure(clusters: int, screenshots: Path | None) -> None:
    """Write the fleet, serve its dashboard, and look at it."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_embedded(Path(folder), listening=True) as backend:
            plane = Plane(backend, private=False)
            fleet = CredentialFleet(plane.client(), plane.clock.now())
            await fleet.install()
            await fleet.many(clusters)
            await fleet.everything()
            async with (
                observe_readable(plane.client()) as observer,
                serve_dashboard(plane.client(), observer, DashboardOptions(), clock=plane.clock) as served,
            ):
                began = time.process_time()
                board = build_board(read_facts(observer), now=plane.clock.now())
                spent, size = time.process_time() - began, sum(map(len, board.rows.values()))
                print(f"server: {len(board.rows)} rows, {size / 1e6:.1f} MB, are built in {spent:.2f} s CPU")
                await look(served.address(), screenshots)
            await plane.close()


async def look(address: str, screenshots: Path | None) -> None:
    """Open the pages in the browser, and print what they cost."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.goto(address)
        await page.wait_for_selector(FIRST_ROW)
        base = address.partition("?")[0]
        began = time.perf_counter()
        await page.goto(f"{base}?again#/credentials")
        await page.wait_for_selector(FIRST_ROW)
        rows = time.perf_counter() - began
        print(f"browser: first paint after {await page.evaluate(PAINT):.0f} ms, first rows after {rows * 1000:.0f} ms")
        print(f"browser: 95 % of scrolled frames are rendered within {await page.evaluate(SCROLL):.1f} ms")
        began = time.perf_counter()
        await page.fill("#search", "edge-6 certificate")
        await page.wait_for_function("document.querySelector('[role=grid]').getAttribute('aria-rowcount') === '2'")
        print(f"browser: a search is answered within {(time.perf_counter() - began) * 1000:.0f} ms")
        if screenshots is not None:
            await take_screenshots(page, base, screenshots)
        await browser.close()


async def take_screenshots(page: Page, base: str, folder: Path) -> None:
    """Write a picture of each page, light, dark and narrow."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    for look_name, (width, height, scheme) in LOOKS.items():
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        for name, path in PAGES.items():
            await page.goto(f"{base}{path}")
            await page.wait_for_selector("main table, main [role=row], main dl")
            await page.screenshot(path=str(folder / f"{name}-{look_name}.png"))


if __name__ == "__main__":
    main()
