"""The agent's way to the hub while its credential is replaced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable
from watchword.registration.agent.hub_connection import HubConnection, OwnCredentialTransport


@dataclass
class Patient:
    """A transport whose streams are opened when the test lets them, and which is asked to close once."""

    opens: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    heard: int = 0

    async def send(self, _: Request) -> Response:
        self.heard += 1
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


async def test_connection_before_is_closed_although_the_agent_is_stopped_in_that_moment() -> None:
    connection, before = HubConnection(), Patient()
    await connection.use(before)
    switching = asyncio.create_task(connection.use(Patient()))
    await asyncio.sleep(0)

    switching.cancel()

    with pytest.raises(asyncio.CancelledError):
        await switching
    assert before.closed


async def test_without_a_credential_nothing_is_sent() -> None:
    with pytest.raises(Unreachable, match="no credential for the hub yet"):
        await HubConnection().send(Request("GET", "/"))


@pytest.mark.parametrize(
    ("method", "own", "sent"),
    [
        pytest.param("POST", True, True, id="a write as itself"),
        pytest.param("POST", False, False, id="write without a credential"),
        pytest.param("GET", False, True, id="read without a credential"),
    ],
)
async def test_writes_pass_only_in_the_own_name(method: str, own: bool, sent: bool) -> None:  # noqa: FBT001 - columns
    connection, hub = HubConnection(), Patient()
    await connection.use(hub, own=own)

    with contextlib.suppress(Unreachable):
        await OwnCredentialTransport(connection).send(Request(method, "/"))

    assert hub.heard == int(sent)
