"""Writes of one object are sent one after the other, and outdated ones not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from watchword.api.conditions import Condition
from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.resources import SECRETS
from watchword.kube.client import Client, PatchType
from watchword.kube.errors import Conflict, MalformedResponse
from watchword.runtime.clock import SystemClock
from watchword.runtime.metrics import Metrics
from watchword.runtime.status import StatusWriter
from watchword.runtime.write_transports import LONGEST_WAIT, REMEMBERED_SECONDS, ControllerTransport, Fence

A, B = ObjectKey("ns", "a"), ObjectKey("ns", "b")


class Server:
    """Takes a second for each write, stores no content, and gives each object a new version."""

    def __init__(self, *, uid: str = "u", hangs: bool = False) -> None:
        self.uid = uid
        self.hangs = hangs
        self.version = 5
        self.log: list[tuple[float, str]] = []

    async def handle(self, request: Request) -> Response:
        self.log.append((asyncio.get_running_loop().time(), f"{request.method} {request.path.rpartition('/')[2]}"))
        if self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(1)
        if request.method == "PATCH":
            self.version += 1
        version = read_at(self.version, uid=self.uid)["metadata"]
        return Response(200, body=orjson.dumps({"metadata": {**version, "namespace": A.namespace, "name": A.name}}))


def ordered(server: Server) -> Client:
    client = Client.from_handler(server.handle)
    fence = Fence(SystemClock(), is_open=True)
    return client.over(ControllerTransport(client.transport, lambda _: None, fence, Metrics()))


def read_at(version: int, *, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}}


async def test_writes_of_one_object_wait_for_each_other_and_those_of_others_do_not() -> None:
    server = Server()
    client = ordered(server)

    await asyncio.gather(
        client.patch(SECRETS, A, {"data": {}}),
        client.patch(SECRETS, A, {"status": {}}, subresource="status"),
        client.patch(SECRETS, B, {"data": {}}),
        client.get(SECRETS, A),
    )

    assert server.log == [(0, "PATCH a"), (0, "PATCH b"), (0, "GET a"), (1, "PATCH status")]


async def test_response_that_is_no_text_is_the_clients_error() -> None:
    async def answer_garbage(request: Request) -> Response:
        return Response(200, body=b'{"metadata":{"uid":"\xff"}}')

    transport = Client.from_handler(answer_garbage).transport
    fence = Fence(SystemClock(), is_open=True)
    client = Client(ControllerTransport(transport, lambda _: None, fence, Metrics()))

    with pytest.raises(MalformedResponse):
        await client.patch(SECRETS, A, {"data": {}})


async def test_write_that_an_earlier_one_made_outdated_is_not_sent() -> None:
    server = Server()
    client = ordered(server)

    first, second = await asyncio.gather(
        client.patch(SECRETS, A, read_at(5)),
        client.patch(SECRETS, A, read_at(5), subresource="status"),
        return_exceptions=True,
    )

    assert isinstance(first, dict)
    assert isinstance(second, Conflict)
    assert "read it again" in str(second)
    assert server.log == [(0, "PATCH a")]
    await client.patch(SECRETS, A, read_at(6))
    assert len(server.log) == 2


@pytest.mark.parametrize(
    ("body", "options"),
    [
        pytest.param({"data": {}}, {}, id="without a precondition"),
        pytest.param(read_at(5, uid="other"), {}, id="for another object of that name"),
        pytest.param(read_at(7), {}, id="read after a change by another program"),
        pytest.param([{"op": "remove", "path": "/data"}], {"kind": PatchType.JSON}, id="a JSON patch"),
        pytest.param(read_at(5), {"dry_run": True}, id="a dry run"),
    ],
)
async def test_every_other_write_is_sent(body: Any, options: dict[str, Any]) -> None:
    server = Server()
    client = ordered(server)
    await client.patch(SECRETS, A, read_at(5))

    await client.patch(SECRETS, A, body, **options)

    assert [what for _, what in server.log] == ["PATCH a", "PATCH a"]


async def test_older_version_is_sent_again_after_a_while_because_the_server_may_have_been_restored() -> None:
    server = Server()
    client = ordered(server)
    await client.patch(SECRETS, A, read_at(5))

    await asyncio.sleep(REMEMBERED_SECONDS + 1)
    await client.patch(SECRETS, A, read_at(5))

    assert len(server.log) == 2


class RestoredServer(Server):
    """Went back to an earlier version after the first write, and refuses every other one from then on."""

    async def handle(self, request: Request) -> Response:
        if self.log and request.method == "PATCH" and orjson.loads(request.body)["metadata"] != read_at(3)["metadata"]:
            self.log.append((asyncio.get_running_loop().time(), "409"))
            return Response(409, body=b'{"kind": "Status", "code": 409, "reason": "Conflict"}')
        if self.log:
            self.version = 3
        return await super().handle(request)


@pytest.mark.parametrize(
    ("known", "refused"),
    [pytest.param(6, ["409"], id="the cache has not listed again"), pytest.param(3, [], id="the cache has")],
)
async def test_status_is_written_at_the_first_retry_after_a_restore(known: int, refused: list[str]) -> None:
    server = RestoredServer()
    client = ordered(server)
    await client.patch(SECRETS, A, read_at(5))
    obj = SECRETS.manifest(A, **read_at(known))
    obj["metadata"] |= {"namespace": A.namespace, "name": A.name}

    await StatusWriter(client, SystemClock()).set_condition(SECRETS, obj, Condition.true("Ready", "Fine", "fine"))

    assert [what for _, what in server.log] == ["PATCH a", *refused, "GET a", "PATCH status"]


async def test_write_that_hangs_delays_the_next_one_a_little() -> None:
    server = Server(hangs=True)
    client = ordered(server)
    hanging = [asyncio.create_task(client.patch(SECRETS, A, {"data": {}})) for _ in range(2)]

    await asyncio.sleep(LONGEST_WAIT + 1)

    assert server.log == [(0, "PATCH a"), (LONGEST_WAIT, "PATCH a")]
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)
    server.hangs = False
    await client.patch(SECRETS, A, {"data": {}})
    assert server.log[-1] == (LONGEST_WAIT + 1, "PATCH a")
