"""Damaged requests to the embedded control plane: each is answered, and never with an internal error."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from random import Random

import orjson
from tests.conformance.request_shapes import Shape, read_scenario
from tests.simulation.secret_leaks import capture_log

from bench.reliability.mutation import mutate
from watchword.api.http import Request, Response
from watchword.apiserver.access.config import access_control_factory
from watchword.apiserver.access.pki_directory import ephemeral_access_config
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.store.memory import MemoryStore
from watchword.testing.virtual_time import VirtualClock, run_virtual

SHAPES = Path(__file__).parents[2] / "tests" / "conformance" / "shapes"
ACCEPTS = (
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    ";;;=,",
)
PATIENCE = 5.0  # virtual seconds for the first event of a watch


@cache
def shapes() -> tuple[Shape, ...]:
    """Return recorded requests of every kind: TokenReview, CSRs, custom kinds, patches."""
    return tuple(shape for path in sorted(SHAPES.glob("*.yaml")) for shape in read_scenario(path).shapes)


def fuzz_requests(cases: int, random: Random) -> list[str]:
    """Send damaged requests as the administrator; return what was not answered well."""
    with capture_log():
        return run_virtual(_fuzz(cases, random))


async def _fuzz(cases: int, random: Random) -> list[str]:
    clock = VirtualClock(asyncio.get_running_loop())
    rules = ephemeral_access_config(clock.now)
    plane = ControlPlane(MemoryStore(), clock.now, access_control_factory(rules, now=clock.now, entropy=os.urandom))
    await plane.start()
    found = []
    for _ in range(cases):
        request = _draw(random, rules.admin_tokens[0].token.reveal())
        try:
            response = await _answer(plane, request)
        except Exception as error:  # noqa: BLE001 - what the server does not handle is the finding
            found.append(f"{request.method} {request.path}: {type(error).__name__}: {error} for {request.body!r}")
            continue
        if response.status == 500 and b'"InternalError"' in response.body:
            found.append(f"{request.method} {request.path}: {response.body!r} for {request.body!r}")
    await plane.stop()
    return found


def _draw(random: Random, token: str) -> Request:
    shape = random.choice(shapes())
    body = b"" if shape.body is None else orjson.dumps(shape.body).replace(b"<ns>", b"default")
    path = shape.path.replace("<ns>", "default")
    if body:
        body = mutate((body,), random)
    if random.random() < 0.2:
        path = "/" + mutate((path.encode(),), random).decode(errors="replace").lstrip("/")
    headers = {**shape.headers, "Accept": random.choice(ACCEPTS), "Authorization": f"Bearer {token}"}
    return Request(shape.method, path, tuple(shape.query.items()), tuple(headers.items()), body)


async def _answer(plane: ControlPlane, request: Request) -> Response:
    response = await plane.handle(request)
    if response.stream is not None:
        try:
            async with asyncio.timeout(PATIENCE):
                await anext(response.stream, b"")
        except TimeoutError:
            pass
        await response.stream.aclose()  # type: ignore[attr-defined]  # the control plane's streams are generators
    return response
