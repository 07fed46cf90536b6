"""What joining and staying cost in requests, counted one by one so that none creeps in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.http import Request, Response
from watchword.apiserver.serving.requestinfo import read_request_info
from watchword.kube.transport import Transport
from watchword.processes.agent import CONTROLLER_FACTORIES

pytestmark = pytest.mark.planes("embedded")

OF_THE_AGENT_AT_HOME = {
    "get namespaces": 1,  # which cluster this is
    "watch secrets": 1,  # its own
    "watch nodes": 1,
    "watch clusterclaims": 1,
    "get /version": 1,
    "create secrets": 1,  # the key, before it is used in a request
    "patch secrets": 1,  # the certificate
}
OF_THE_AGENT_ON_THE_HUB = {
    "create managedclusters": 1,
    "create certificatesigningrequests": 1,
    "watch managedclusters": 2,  # as a joining cluster, then as itself
    "watch certificatesigningrequests": 1,  # until there is a certificate
    "watch managedclusteraddons": 1,
    "watch manifestworks": 1,
    "patch managedclusters/status": 1,
}
OF_THE_HUB = {
    "update certificatesigningrequests/approval": 1,
    "patch managedclusters": 1,  # which key has the name, and accepted, with finalizers and set
    "create namespaces": 1,
    "create clusterroles": 1,
    "create clusterrolebindings": 1,
    "create rolebindings": 2,
    "create leases": 1,
    "patch managedclusters/status": 1,  # accepted
    "create events": 3,  # approved, accepted, issued
}
OF_THE_HUB_FOR_ANY_NUMBER = {
    "create managedclusters": 3,  # tests whether an identity may accept a cluster that must not
    "patch managedclustersets/status": 2,
}


@dataclass
class Tally:
    """Counts what passes."""

    seen: Counter[str] = field(default_factory=Counter)

    def through(self, inner: Transport) -> Transport:
        return Counting(inner, self.seen)


@dataclass
class Counting:
    """A transport that counts requests by what they do to which kind."""

    inner: Transport
    seen: Counter[str]

    async def send(self, request: Request) -> Response:
        self._count(request)
        return await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        self._count(request)
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        await self.inner.close()

    def _count(self, request: Request) -> None:
        asked = read_request_info(request.method, request.path, request.query)
        what = "/".join(part for part in (asked.resource, asked.subresource) if part) or asked.path
        self.seen[f"{asked.verb} {what}"] += 1


async def start(fleet: FleetHarness) -> tuple[str, Tally, Tally]:
    """Let a cluster join a hub that has found its peace; return its name, the agent's tally and the hub's."""
    agent, hub, name = Tally(), Tally(), fleet.name()
    fleet.through = hub.through
    fleet.start_hub(AUTOMATIC)
    await asyncio.sleep(60)
    hub.seen.clear()
    fleet.through = agent.through
    fleet.start_agent(name, controllers=CONTROLLER_FACTORIES)
    await fleet.joined(name)
    return name, agent, hub


async def test_a_join_costs_no_request_that_could_be_spared(fleet: FleetHarness) -> None:
    _, agent, hub = await start(fleet)

    await asyncio.sleep(20)  # everything that follows from it, and no renewal yet

    assert agent.seen == Counter(OF_THE_AGENT_AT_HOME) + Counter(OF_THE_AGENT_ON_THE_HUB)
    assert hub.seen - Counter(OF_THE_HUB_FOR_ANY_NUMBER) == Counter(OF_THE_HUB)


@pytest.mark.bookmarks  # they show that the API server is alive
async def test_a_member_to_which_nothing_happens_is_almost_silent(fleet: FleetHarness) -> None:
    _, agent, hub = await start(fleet)
    await asyncio.sleep(600)
    agent.seen.clear()
    hub.seen.clear()

    await asyncio.sleep(3600)

    assert agent.seen["patch leases"] <= 80  # the shortest pause is three quarters of a minute
    assert agent.seen.total() <= 2 * 60, agent.seen
    assert hub.seen["patch managedclusters/status"] == 0, hub.seen
