"""`watchword grpc-server` as a process: killed at any write, stopped, started with unusable files."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import grpc.aio
import orjson
import pytest
from tests.registration.grpc.grpc_hub import EVENT, SERVER_USER, GrpcAgent, GrpcHub, grant_server_rights

from watchword.api.meta import ObjectKey
from watchword.api.resources import EVENTS
from watchword.registration.grpc.errors import TlsFilesUnusable
from watchword.registration.grpc.server.listener import TlsFiles
from watchword.testing.process import ChildProcess, free_port

pytestmark = pytest.mark.real_time


async def start_process(hub: GrpcHub, log: Path) -> ChildProcess:
    """Run the command with its own rights, on the port of the hub."""
    await grant_server_rights(hub.client)
    if not (hub.folder / "tls.crt").exists():
        hub.write_files()
    hub.port = hub.port or free_port()
    command = [
        *(sys.executable, "-m", "watchword", "grpc-server", f"--serve=127.0.0.1:{hub.port}"),
        f"--kubeconfig={hub.fleet.plane.kubeconfig_for(SERVER_USER)}",
        f"--tls-cert-file={hub.folder}/tls.crt",
        f"--tls-key-file={hub.folder}/tls.key",
        f"--client-ca-file={hub.folder}/client-ca.crt",
    ]
    return await asyncio.to_thread(ChildProcess, command, log)


async def send(agent: GrpcAgent, event: object) -> None:
    """Publish an event as soon as there is a server."""
    request = agent.protocol.messages.PublishRequest(event=event)
    await agent.stub.Publish(request, wait_for_ready=True, timeout=60)


async def send_again(agent: GrpcAgent, event: object) -> None:
    """Publish an event that may have been written before."""
    try:
        await send(agent, event)
    except grpc.aio.AioRpcError as error:
        if orjson.loads(error.details() or "{}")["ErrStatus"]["reason"] != "AlreadyExists":
            raise


@pytest.mark.slow
async def test_killed_server_loses_nothing_that_it_acknowledged(hub: GrpcHub, tmp_path: Path) -> None:
    process = await start_process(hub, tmp_path / "server.log")
    name = await hub.accepted()
    agent = hub.agent(name)
    acknowledged = []

    for number in range(4):
        event = agent.event(f"{EVENT}.spec.create_request", hub.event(f"started.{number}", name))
        if number:
            await send(agent, agent.event(f"{EVENT}.spec.create_request", hub.event(f"kept.{number}", name)))
            acknowledged.append(f"kept.{number}")
        sending = asyncio.create_task(send(agent, event))
        await asyncio.sleep(0)  # the write may have begun or not
        await asyncio.to_thread(process.kill)
        process = await start_process(hub, tmp_path / "server.log")
        await asyncio.gather(sending, return_exceptions=True)
        await send_again(agent, event)
        acknowledged.append(f"started.{number}")

    for written in acknowledged:
        assert await hub.client.get(EVENTS, ObjectKey(name, written))
    await asyncio.to_thread(process.kill)


async def test_stopped_server_ends_by_itself(hub: GrpcHub, tmp_path: Path) -> None:
    process = await start_process(hub, tmp_path / "server.log")
    name = await hub.accepted()
    agent = hub.agent(name)
    await send(agent, agent.event(f"{EVENT}.spec.create_request", hub.event("started.1", name)))

    await asyncio.to_thread(process.stop, 60.0)

    log = (tmp_path / "server.log").read_text()
    assert "stopping" in log
    assert "Traceback" not in log


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).write_text("nothing")

    with pytest.raises(TlsFilesUnusable, match=r"ca\.crt"):
        TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt").load()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlsFilesUnusable, match=r"tls\.crt cannot be read"):
        TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt").load()


async def test_damaged_files_do_not_replace_good_ones(hub: GrpcHub) -> None:
    files = hub.write_files()
    files.load()
    roots = files.roots()

    files.client_roots.write_text("nothing")

    assert files.roots() == roots
