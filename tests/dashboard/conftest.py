"""Fixtures of the dashboard's tests: a hub with credentials, the dashboard over it, and a browser."""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from threading import Thread

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright
from tests.dashboard.harness import DashboardHarness, open_dashboard
from tests.helpers.credential_fleet import CredentialFleet
from tests.helpers.plane_image import install_once

from watchword.testing.plane import Plane

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
)


@pytest_asyncio.fixture
async def hub(plane: Plane) -> CredentialFleet:
    """A hub with the kinds of a fleet, and nothing else yet."""
    fleet = CredentialFleet(plane.client(), plane.clock.now())
    await install_once(plane, "kinds of a hub", fleet.define_kinds)
    await fleet.install()
    return fleet


@pytest_asyncio.fixture
async def dashboards(plane: Plane) -> AsyncIterator[AsyncExitStack]:
    """Dashboards that a test opens end with the test."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest_asyncio.fixture
async def dashboard(plane: Plane, hub: CredentialFleet, dashboards: AsyncExitStack) -> DashboardHarness:
    """The dashboard with the administrator's rights, opened by a one-time address."""
    return await dashboards.enter_async_context(open_dashboard(plane))


@pytest_asyncio.fixture
async def login_dashboard(plane: Plane, hub: CredentialFleet, dashboards: AsyncExitStack) -> DashboardHarness:
    """The dashboard to which each person signs in with a token."""
    return await dashboards.enter_async_context(open_dashboard(plane, login=True))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Chromium that the tests of this process share; they are skipped where none is installed."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    own = ("--headless", "--remote-debugging-port=0", f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    with subprocess.Popen([CHROMIUM, *own, *FLAGS], stderr=subprocess.PIPE, text=True) as process:
        messages = process.stderr or ()
        address = next(line for line in messages if "DevTools listening on " in line).split()[-1]
        reader = Thread(target=deque, args=(messages, 0))  # else Chromium would wait once the pipe is full
        reader.start()
        yield address
        process.terminate()
        reader.join()


@pytest_asyncio.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """A connection to Chromium; what a test opens there is closed with it."""
    async with async_playwright() as playwright:
        connected = await playwright.chromium.connect_over_cdp(chromium)
        yield connected
        await connected.close()
