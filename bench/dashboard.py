"""Measures the dashboard of a large fleet: its server process, its stream, and the pages in a real Chromium.

Run it with `python -m bench.dashboard --clusters 3000`; `--screenshots DIR` also writes a picture of each page.
`kubectl get` of the same lists in the same run is what the first rows are compared with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Page, async_playwright
from tests.helpers.credential_fleet import CredentialFleet

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.runtime.event_loop import run
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane

KINDS = "managedclusters,managedclusteraddons,managedserviceaccounts.proxy.open-cluster-management.io"
CHANGES = 40
FIRST_ROW = "[role=row][aria-rowindex='2']"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
NOTE_FIRST_ROW = f"""
window.firstRow = new Promise((resolve) => {{
  new MutationObserver((_, observer) => {{
    if (!document.querySelector("{FIRST_ROW}")) return;
    observer.disconnect();
    requestAnimationFrame(() => resolve(performance.now()));
  }}).observe(document, {{ childList: true, subtree: true }});
}});
"""
PAINT = """async () => {
  const rows = await window.firstRow;
  return [performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1, rows];
}"""
FRAMES, SEARCHES = 120, 8
SCROLL = f"""async () => {{
  const grid = document.querySelector("[role=grid]");
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < {FRAMES}; frame += 1) {{
    grid.scrollTop += 280; // ten rows
    const at = await new Promise(requestAnimationFrame);
    frames.push(at - last);
    last = at;
  }}
  return frames.sort((one, other) => one - other)[{FRAMES * 95 // 100}];
}}"""
SEARCH = """async () => {
  const search = document.querySelector("#search");
  for (const word of ["c", "cl", "cluster-1", "cluster-12", "cluster-12 token", "robot", "edge-6 certificate", ""]) {
    search.value = word;
    search.dispatchEvent(new Event("input"));
    await new Promise(requestAnimationFrame);
  }
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
            listed = await list_with_kubectl(plane.kubeconfig)
            async with served(plane.kubeconfig) as dashboard:
                cookie = await sign_in(dashboard.address)
                async with opened_stream(dashboard.address, cookie) as stream:  # waits until every row is decided
                    await stream.message()
                    print(f"server: {(await dashboard.usage())[0]:.2f} s CPU until every row is decided")
                before, _ = await dashboard.usage(probe=True)
                async with opened_stream(dashboard.address, cookie) as stream:
                    await measure_stream(dashboard, stream, listed=listed, before=before)
                    await measure_changes(dashboard, stream, plane)
                await look(dashboard, cookie, screenshots)
            await plane.close()


async def list_with_kubectl(kubeconfig: Path) -> int:
    """List what the pages show most of, print how long that takes, and return the bytes of it."""
    command = ("kubectl", "--kubeconfig", str(kubeconfig), "get", KINDS, "-A")
    for output in ("wide", "json"):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*command, "-o", output, stdout=PIPE)
        printed, _ = await process.communicate()
        print(f"kubectl get -o {output}: {(time.perf_counter() - began) * 1000:.0f} ms, {len(printed) / 1e6:.2f} MB")
    return len(printed)


@dataclass
class DashboardProcess:
    """The dashboard, and what it tells about itself."""

    process: Process
    address: str = ""

    async def read(self) -> dict[str, Any]:
        """Return the next line."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(await self.process.stdout.readline())
        return found

    async def usage(self, *, probe: bool = False) -> tuple[float, float]:
        """Return the seconds of processor time, and for how long the loop was blocked at most since the last call.

        Whether the loop is blocked is looked for from now on when that is asked for.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(b"probe\n" if probe else b"\n")
        found = await self.read()
        return found["cpu"], found["blocked"]


@asynccontextmanager
async def served(kubeconfig: Path) -> AsyncIterator[DashboardProcess]:
    """Start the dashboard as a process of its own."""
    command = (sys.executable, "-m", "bench.dashboard_server", str(kubeconfig))
    dashboard = DashboardProcess(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))
    dashboard.address = (await dashboard.read())["address"]
    try:
        yield dashboard
    finally:
        assert dashboard.process.stdin is not None
        dashboard.process.stdin.close()
        await dashboard.process.wait()


@dataclass
class Stream:
    """The stream that a browser follows, with a count of its bytes."""

    reader: asyncio.StreamReader
    first: int = 0

    async def message(self) -> tuple[dict[str, Any], int]:
        """Return the data of the next message, and its size."""
        while True:
            line = await self.reader.readline()
            if line.startswith(b"data: "):
                return json.loads(line[6:]), len(line)


async def sign_in(address: str) -> str:
    """Open the one-time address, and return the cookie."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"GET /?{where.query} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return next(line.split()[1] for line in answer.splitlines() if line.startswith("Set-Cookie:")).rstrip(";")


@asynccontextmanager
async def opened_stream(address: str, cookie: str) -> AsyncIterator[Stream]:
    """Open the stream that a browser follows."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=2**26)
    writer.write(f"GET /api/live HTTP/1.1\r\nHost: {where.netloc}\r\nCookie: {cookie}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    yield Stream(reader)
    writer.close()


async def measure_stream(dashboard: DashboardProcess, stream: Stream, *, listed: int, before: float) -> None:
    """Read everything once, as a browser does that opens the page."""
    began, messages, left = time.perf_counter(), 0, 1
    while left:
        data, size = await stream.message()
        messages, left, stream.first = messages + 1, data["left"], stream.first + size
        if messages == 1:
            print(f"stream: the first message has {len(data['put'])} rows in {size / 1e3:.0f} kB")
    taken = (time.perf_counter() - began) * 1000
    after, blocked = await dashboard.usage()
    print(f"stream: everything is {stream.first / 1e6:.2f} MB ({stream.first / listed:.2f} of what kubectl prints)")
    print(f"stream: {messages} messages in {taken:.0f} ms, {(after - before) * 1000:.0f} ms CPU of the server")
    print(f"server: the loop is blocked for {blocked * 1000:.0f} ms CPU at most")


async def measure_changes(dashboard: DashboardProcess, stream: Stream, plane: Plane) -> None:
    """Change one cluster after the other, and read what is sent of it."""
    sizes = []
    before, _ = await dashboard.usage()
    for number in range(CHANGES):
        await change_cluster(plane, f"cluster-{number:04}")
        while not (found := await stream.message())[0]["put"]:
            continue
        sizes.append(found[1])
    after, _ = await dashboard.usage()
    per_change = (after - before) / CHANGES * 1000
    print(f"server: a change is {sorted(sizes)[CHANGES // 2]} bytes, and {per_change:.1f} ms CPU of the server")


async def change_cluster(plane: Plane, name: str) -> None:
    """Let a cluster fall silent."""
    client = plane.client()
    cluster = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    for row in cluster["status"]["conditions"]:
        if row["type"] == ConditionType.AVAILABLE:
            row.update(status="Unknown", reason="ManagedClusterLeaseUpdateStopped", message="fell silent")
    await client.update(MANAGED_CLUSTERS, cluster, subresource="status")


async def look(dashboard: DashboardProcess, cookie: str, screenshots: Path | None) -> None:
    """Open the pages in the browser, and print what they cost."""
    base = dashboard.address.partition("?")[0]
    name, _, value = cookie.partition("=")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        await context.add_cookies([{"name": name, "value": value, "url": base}])
        await context.add_init_script(NOTE_FIRST_ROW)
        page = await context.new_page()
        await page.goto(f"{base}#/credentials")
        await page.wait_for_selector(FIRST_ROW)
        await measure_opening(page, base, dashboard)
        await measure_use(page)
        if screenshots is not None:
            await take_screenshots(page, base, screenshots)
        await browser.close()


async def measure_opening(page: Page, base: str, dashboard: DashboardProcess) -> None:
    """Open the table of credentials in a browser that has the files already."""
    await dashboard.usage(probe=True)
    await page.goto(f"{base}?again#/credentials")
    paint, rows = await page.evaluate(PAINT)
    _, blocked = await dashboard.usage()
    print(f"browser: first paint after {paint:.0f} ms, first rows after {rows:.0f} ms")
    print(f"server: meanwhile the loop is blocked for {blocked * 1000:.0f} ms CPU at most")


async def measure_use(page: Page) -> None:
    """Scroll and search; the processor time of the page's thread does not depend on what else the machine does."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})

    async def spent() -> float:
        metrics = (await session.send("Performance.getMetrics"))["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    before = await spent()
    frames = await page.evaluate(SCROLL)
    each = (await spent() - before) / FRAMES * 1000
    print(f"browser: a scrolled frame costs {each:.1f} ms CPU; 95 % of frames follow within {frames:.0f} ms")
    before = await spent()
    await page.evaluate(SEARCH)
    print(f"browser: a search costs {(await spent() - before) / SEARCHES * 1000:.1f} ms CPU")


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
