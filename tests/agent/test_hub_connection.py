"""The agent's way to the hub while its credential is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from watchword.agent.hub_connection import HubConnection
from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable


@dataclass
class Patient:
    """A transport whose streams are opened when the test lets them, and which is asked to close once."""

    opens: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False

    async def send(self, _: Request) -> Response:
        return Response(200)

    @asynccontextmanager
    async def stream(self, _: Request) -> AsyncIterator[Response]:
        self.asked.set()
        await self.opens.wait()
        yield Response(200)

    async def close(self) -> None:
        self.closed = True


async def watch(connection: HubConnection) -> None:
    """Watch for ever."""
    async with connection.stream(Request("GET", "/")):
        await asyncio.Event().wait()


@pytest.mark.parametrize("opened", [pytest.param(True, id="open"), pytest.param(False, id="being opened")])
async def test_stream_of_the_credential_before_is_cut(opened: bool) -> None:  # noqa: FBT001 - a column
    connection, before = HubConnection(), Patient()
    await connection.use(before)
    watching = asyncio.create_task(watch(connection))
    await before.asked.wait()
    if opened:
        before.opens.set()
        await asyncio.sleep(0)

    await connection.use(Patient())

    with pytest.raises(Unreachable, match="the credential was replaced"):
        await watching
    assert before.closed


async def test_without_a_credential_nothing_is_sent() -> None:
    with pytest.raises(Unreachable, match="no credential for the hub yet"):
        await HubConnection().send(Request("GET", "/"))
