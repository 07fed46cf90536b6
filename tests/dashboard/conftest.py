"""Fixtures of the dashboard's tests: a hub with credentials, the dashboard over it, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

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


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    """A real Chromium; the test is skipped where none is installed."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        await started.close()
