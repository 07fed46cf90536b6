"""The web dashboard of a fleet on this machine, served from the observer of its terminal view."""

from __future__ import annotations

from watchword.dashboard.process import DashboardOptions, ServedDashboard, follow_readable, serve_dashboard
from watchword.local.fleet import LocalFleet


async def start_dashboard(fleet: LocalFleet) -> ServedDashboard:
    """Serve it on a loopback port until the fleet ends."""
    client, observer = fleet.hub.client, fleet.hub_observer
    await fleet.stack.enter_async_context(follow_readable(client, observer))
    return await fleet.stack.enter_async_context(
        serve_dashboard(client, observer, DashboardOptions(), clock=fleet.clock)
    )
