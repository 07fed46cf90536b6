"""A control plane for arbitrary requests, and the budget of a run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, settings
from msgspec.structs import replace
from tests.conformance.request_shapes import Shape, read_scenario

from watchword.api.http import Request, Response
from watchword.apiserver.access.config import access_control_factory
from watchword.apiserver.access.pki_directory import ephemeral_access_config
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.store.memory import MemoryStore
from watchword.testing.virtual_time import VirtualClock, VirtualLoop

EXAMPLES = int(os.environ.get("WATCHWORD_FUZZ_EXAMPLES", "60"))
LARGEST_ANSWER = 64 * 1024 * 1024
SHAPES = Path(__file__).parents[1] / "conformance" / "shapes"

bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="WATCHWORD_FUZZ_EXAMPLES" not in os.environ,  # the default suite is the same in every run
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True)
class Target:
    """Sends requests as the administrator; every request must get a response."""

    loop: VirtualLoop
    plane: ControlPlane
    token: str

    def ask(self, request: Request, *, as_admin: bool = True) -> Response:
        """Return the response; a server error is a failure."""
        headers = (("Authorization", f"Bearer {self.token}"), *request.headers) if as_admin else request.headers
        response = self.loop.run_until_complete(self._answer(replace(request, headers=headers)))
        assert 100 <= response.status < 600
        assert len(response.body) <= LARGEST_ANSWER
        assert not is_server_error(response), f"{request} {request.body[:2000]!r} -> {response.body!r}"
        return response

    async def _answer(self, request: Request) -> Response:
        response = await self.plane.handle(request)
        if response.stream is None:
            return response
        async with asyncio.timeout(5):
            try:
                first = await anext(response.stream, b"")
            except TimeoutError:
                first = b""
        await response.stream.aclose()  # type: ignore[attr-defined]
        return Response(response.status, response.headers, first)


def is_server_error(response: Response) -> bool:
    """Whether the server failed by itself; upstream, too, blames some requests with a bare 500."""
    if response.status != 500:
        return False
    return bool(orjson.loads(response.body).get("reason") == "InternalError")


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    rules = ephemeral_access_config(clock.now)
    plane = ControlPlane(MemoryStore(), clock.now, access_control_factory(rules, now=clock.now, entropy=os.urandom))
    loop.run_until_complete(plane.start())
    yield Target(loop, plane, rules.admin_tokens[0].token.reveal())
    loop.run_until_complete(plane.stop())
    loop.close()


def corpus() -> list[Shape]:
    """Return every recorded request shape: fuzzing begins where real requests are."""
    return [shape for path in sorted(SHAPES.glob("*.yaml")) for shape in read_scenario(path).shapes]


def filled(text: str) -> str:
    """Return a shape's text for the namespace that is always there."""
    return text.replace("<ns>", "default")


def encoded(body: Any) -> bytes:
    """Return a body as JSON."""
    return filled(orjson.dumps(body).decode()).encode()
