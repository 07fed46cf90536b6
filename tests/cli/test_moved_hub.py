"""Agents find a hub that moved by the address in their bootstrap kubeconfig, restarted or running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from tests.cli.conftest import Member

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_KUBECONFIG_SECRET
from watchword.api.resources import SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import KUBECONFIG
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


@asynccontextmanager
async def forwarding_port(plane: Plane) -> AsyncIterator[int]:
    """Forward a loopback port to the hub; every connection through it ends with the context."""
    target, connections = urlsplit(plane.server), set[asyncio.StreamWriter]()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(target.hostname, target.port)
        connections.update((writer, there[1]))
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in connections:
            connection.transport.abort()


async def recorded_server(member: Member, server: str) -> None:
    """Wait until the agent's Secret names this address."""

    def is_recorded(secret: Object | None) -> bool:
        text = decode_data(secret).get(KUBECONFIG, b"")
        return bool(text) and parse_kubeconfig(text).choose().cluster.server == server

    key = ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET)
    await eventually(member.fleet.client, SECRETS, key, is_recorded, within=60)


async def accepted(member: Member) -> None:
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()


async def test_a_restarted_agent_uses_the_address_of_its_bootstrap_kubeconfig(member: Member) -> None:
    await member.asks()
    await accepted(member)
    await member.stop()
    await member.hub_moves_away()

    member.agent = await member.fleet.start_agent(member.name, member.namespace)

    await recorded_server(member, member.fleet.plane.server)


async def test_a_running_agent_uses_the_new_address_of_its_bootstrap_kubeconfig(member: Member) -> None:
    await member.join()
    async with forwarding_port(member.fleet.plane) as port:
        here, there = f"https://127.0.0.1:{port}", member.fleet.plane.server
        member.agent = await member.fleet.start_agent(member.name, member.namespace, server=here)
        await member.fleet.asked(member.name)
        await accepted(member)
        await recorded_server(member, here)

    await member.fleet.write_bootstrap(member.namespace, there)

    await recorded_server(member, there)
