"""What happens on sockets is a sample of the incidents of the simulation, and the proxy does what its name says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.simulation.catalog import INCIDENTS

from bench.reliability.live import LiveBackend, live_states
from bench.reliability.lived_kinds import LIVED, NOT_LIVED
from bench.reliability.tcp_proxy import TcpProxy


def test_every_incident_of_the_simulation_is_lived_on_sockets_or_says_why_not() -> None:
    assert not set(LIVED) & set(NOT_LIVED)
    assert {*LIVED, *NOT_LIVED} == set(INCIDENTS)
    assert all(NOT_LIVED.values())


def test_every_lived_incident_exists(tmp_path: Path) -> None:
    assert set(LIVED.values()) <= {state.what for state in live_states(LiveBackend(tmp_path))}


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)


@pytest.mark.real_time
async def test_proxy_passes_bytes_on_and_resets_holds_and_refuses_connections() -> None:
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        proxy = TcpProxy(server.sockets[0].getsockname()[1])
        await proxy.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.hold()
        writer.write(b"one\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readline(), 0.1)
        proxy.release()
        assert await reader.readline() == b"one\n"

        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            await reader.readline()

        proxy.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.close()
