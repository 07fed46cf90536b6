"""What an add-on costs in requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest
from tests.addons.fleet import AddonFleet, account_of
from tests.helpers.fleet import AUTOMATIC, PlaneConnector

from watchword.api.http import Request, Response
from watchword.api.names import ConditionType
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.kube.client import Client
from watchword.kube.transport import Transport
from watchword.processes.agent import AgentRuntime, addon_controllers, run_agent
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.registration.agent.options import AgentOptions

ADDONS = 100


class Counting:
    """A transport that counts what passes."""

    def __init__(self, inner: Transport, seen: Counter[str]) -> None:
        self.inner, self.seen = inner, seen

    async def send(self, request: Request) -> Response:
        if not request.path.endswith("/events"):  # sent beside the work, which does not wait for them
            self.seen[f"{request.method} {request.path.rsplit('/', 1)[0]}"] += 1
        return await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        await self.inner.close()


class CountingConnector(PlaneConnector):
    """Reaches the hub through a transport that counts."""

    def __init__(self, inner: PlaneConnector, seen: Counter[str]) -> None:
        super().__init__(inner.plane)
        self.seen = seen

    def own(self, data: object) -> Transport:
        return Counting(super().own(data), self.seen)  # type: ignore[arg-type]  # a Secret's content


async def start_counting(addon_fleet: AddonFleet, hub_side: Counter[str], agent_side: Counter[str]) -> str:
    """Replace the hub by one whose requests are counted, and let a cluster join whose agent's are."""
    await addon_fleet.members.stop(addon_fleet.hub)
    hub = Client(Counting(addon_fleet.plane.fresh_client().transport, hub_side))
    options = HubOptions(settings=AUTOMATIC, auto_approval=True, elect=False, install=False)
    work = run_hub(hub, options, clock=addon_fleet.plane.clock, random=Random(1), extensions=[hub_addon_controllers])
    addon_fleet.members.tasks.append(asyncio.create_task(work))
    name = addon_fleet.members.name()
    local = Client(Counting(addon_fleet.plane.fresh_client().transport, agent_side))
    connector = CountingConnector(PlaneConnector(addon_fleet.plane), agent_side)
    agent = AgentOptions(
        name, hub_secret=f"hub-{name}", addon_namespace=addon_fleet.namespace, addon_auth="token", elect=False
    )
    runtime = AgentRuntime(
        clock=addon_fleet.plane.clock, random=Random(2), connector=connector, controllers=[addon_controllers]
    )
    addon_fleet.members.tasks.append(asyncio.create_task(run_agent(local, agent, runtime=runtime)))
    await addon_fleet.members.joined(name)
    return name


@pytest.mark.planes("embedded")
async def test_recovery_takes_the_requests_that_it_must_and_waits_for_nothing(addon_fleet: AddonFleet) -> None:
    hub_side, agent_side = Counter[str](), Counter[str]()
    name = await start_counting(addon_fleet, hub_side, agent_side)
    key = await addon_fleet.enable("first", name)
    await addon_fleet.says(key, ConditionType.ADDON_AVAILABLE, "Unknown")
    await addon_fleet.refreshed(key)

    for resource, broken, made, stored in (
        (SERVICE_ACCOUNTS, account_of(key), ["POST", "PATCH"], ["POST", "PATCH"]),
        (SECRETS, addon_fleet.secret_key(key), [], ["POST", "POST"]),
    ):
        first = await addon_fleet.secret(key)
        hub_side.clear()
        agent_side.clear()
        began = addon_fleet.plane.clock.now()
        await addon_fleet.client.delete(resource, broken)
        await addon_fleet.secret(key, lambda data, first=first: data["token"] != first["token"])  # type: ignore[misc]  # now

        assert addon_fleet.plane.clock.now() - began < timedelta(milliseconds=100), resource.plural
        assert methods(hub_side) == made
        assert methods(agent_side)[:2] == stored  # what follows is the report, and the join does not wait for it


def methods(seen: Counter[str]) -> list[str]:
    """Return the requests, in order."""
    return [request.partition(" ")[0] for request in seen.elements()]


@pytest.mark.planes("embedded")
async def test_token_of_an_addon_costs_few_requests(addon_fleet: AddonFleet) -> None:
    hub_side, agent_side = Counter[str](), Counter[str]()
    name = await start_counting(addon_fleet, hub_side, agent_side)
    first = await addon_fleet.enable("first", name)
    await addon_fleet.says(first, ConditionType.ADDON_AVAILABLE, "Unknown")
    await addon_fleet.refreshed(first)
    hub_side.clear()
    agent_side.clear()

    keys = [await addon_fleet.enable(f"a{number}", name) for number in range(ADDONS)]
    for key in keys:
        await addon_fleet.refreshed(key)

    assert hub_side.total() / ADDONS <= 4.5, hub_side
    assert agent_side.total() / ADDONS <= 5.5, agent_side
