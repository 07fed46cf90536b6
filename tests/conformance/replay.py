"""Sends request shapes to a control plane and records the responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from tests.conformance.normalize import Normaliser
from tests.conformance.request_shapes import Scenario, Shape

from watchword.api.http import Request, Response
from watchword.kube.credentials import FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.transport import InProcessTransport, Transport
from watchword.testing.plane import Plane

PATIENCE = 250
PAUSE = 0.1
LONGEST_ANSWER = 40.0
UNAUTHENTICATED = "anonymous"

Answer = dict[str, Any]


async def play(plane: Plane, scenario: Scenario) -> dict[str, Answer]:
    """Send every shape of a scenario in order; return the responses in comparable form, by name."""
    if scenario.controllers:
        await plane.controllers(*scenario.controllers)
    namespace = await plane.namespace(f"shapes-{scenario.name.replace('_', '-')}")
    bare = bare_transport(plane)
    try:
        replay = Replay(plane.client().transport, bare, {"ns": namespace, **scenario.values})
        return {shape.name: await replay.answer(shape) for shape in scenario.shapes}
    finally:
        await bare.close()


def bare_transport(plane: Plane) -> Transport:
    """Return a transport to the control plane without a credential."""
    transport = plane.client().transport
    if isinstance(transport, InProcessTransport):
        return transport.with_identity()
    return HttpsTransport(Endpoint(plane.server, plane.ca_pem), FixedCredential())


class Replay:
    """Sends shapes in order; stores the values to which later shapes refer."""

    def __init__(self, transport: Transport, bare: Transport, known: Mapping[str, str]) -> None:
        self._transport = transport
        self._bare = bare
        self._memory = dict(known)
        self._normaliser = Normaliser(known)

    async def answer(self, shape: Shape) -> Answer:
        """Send one shape, repeatedly where it says so; return its response in comparable form."""
        response = await self._send(shape)
        for _ in range(PATIENCE):
            if shape.until in {0, response.status} and shape.settle.encode() in response.body:
                break
            await asyncio.sleep(PAUSE)
            response = await self._send(shape)
        else:
            raise AssertionError(f"{shape.name}: never settled, last {response.status} {response.body[-1500:]!r}")
        self._remember(shape, response.body)
        return self._normaliser.comparable(response, among=shape.among, hide=shape.hide)

    async def _send(self, shape: Shape) -> Response:
        transport = self._bare if shape.token or shape.user == UNAUTHENTICATED else self._transport
        async with asyncio.timeout(LONGEST_ANSWER), transport.stream(self._request(shape)) as response:
            for inner in shape.during:
                await self._send(inner)
            if response.stream is None:
                return response
            body = await _some(response.stream, shape.events)
        return Response(response.status, response.headers, body)

    def _request(self, shape: Shape) -> Request:
        body = self._body(shape)
        headers = {"Accept": "application/json", "User-Agent": "shapes/1", **shape.headers}
        if body:
            headers.setdefault("Content-Type", "application/json")
        if shape.token:
            headers["Authorization"] = f"Bearer {shape.token}"
        if shape.user and shape.user != UNAUTHENTICATED:
            headers["Impersonate-User"] = shape.user
        query = tuple(
            (name, self._filled(str(value)))
            for name, values in shape.query.items()
            for value in (values if isinstance(values, list) else [values])
        )
        filled = tuple((name, self._filled(value)) for name, value in headers.items())
        return Request(shape.method, self._filled(shape.path), query, filled, body)

    def _body(self, shape: Shape) -> bytes:
        if shape.hex:
            return bytes.fromhex(shape.hex)
        text = shape.raw or ("" if shape.body is None else orjson.dumps(shape.body).decode())
        return self._filled(text).encode()

    def _filled(self, text: str) -> str:
        for name, value in self._memory.items():
            text = text.replace(f"<{name}>", value)
        return text

    def _remember(self, shape: Shape, body: bytes) -> None:
        if shape.keep:
            document = orjson.loads(body)
            self._memory.update({name: _at(document, path) for name, path in shape.keep.items()})


def _at(document: Any, path: str) -> str:
    for step in path.split("."):
        document = (document or {}).get(step)
    return str(document or "")


async def _some(stream: AsyncIterator[bytes], events: int) -> bytes:
    """Read a stream to its end, or until it has delivered so many lines."""
    received = b""
    async for chunk in stream:
        received += chunk
        if events and received.count(b"\n") >= events:
            return b"\n".join(received.split(b"\n")[:events])
    return received
