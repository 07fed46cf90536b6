"""An agent that starts with a damaged Secret, or with nothing to reach its hub with."""

from __future__ import annotations

import asyncio
import base64
from random import Random

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import KUBECONFIG
from watchword.processes.agent import AgentRuntime, run_agent
from watchword.registration.agent.options import AgentOptions
from watchword.testing.eventually import eventually


async def test_an_agent_repairs_a_damaged_kubeconfig_in_its_secret_at_its_start(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    await fleet.stop(agent)
    key = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    whole = decode_data(await fleet.client.get(SECRETS, key))
    damaged = base64.b64encode(b"{damaged").decode()
    await fleet.client.patch(SECRETS, key, {"data": {KUBECONFIG: damaged}})

    fleet.start_agent(name)

    def is_repaired(secret: Object | None) -> bool:
        return decode_data(secret) == whole

    await eventually(fleet.client, SECRETS, key, is_repaired)


@pytest.mark.parametrize("held", [{}, {KUBECONFIG: b"{damaged"}], ids=["no Secret", "a damaged Secret"])
async def test_an_agent_that_waits_for_a_bootstrap_kubeconfig_stops_when_asked(
    fleet: FleetHarness, held: dict[str, bytes]
) -> None:
    name, stop = fleet.name(), asyncio.Event()
    if held:
        data = {key: base64.b64encode(value).decode() for key, value in held.items()}
        await fleet.client.create(SECRETS, SECRETS.manifest(ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"), data=data))
    runtime = AgentRuntime(
        clock=fleet.plane.clock, random=Random(1), connector=PlaneConnector(fleet.plane, may_join=False)
    )
    options = AgentOptions(name, hub_secret=f"hub-{name}", elect=False)
    running = asyncio.create_task(run_agent(fleet.plane.fresh_client(), options, runtime=runtime, stop=stop))
    await asyncio.sleep(1)  # in virtual time: the agent waits by then

    stop.set()

    async with asyncio.timeout(60):
        await running
