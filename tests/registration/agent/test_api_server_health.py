"""How often an agent asks its cluster's API server whether it is well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from watchword.api.http import Request, Response
from watchword.api.meta import Resource
from watchword.kube.client import Client
from watchword.kube.request_sender import NO_RETRY
from watchword.kube.transport import InProcessTransport
from watchword.kube.watch import WatchUpdate
from watchword.registration.agent.cluster_status import ApiServerHealthCheck, ClusterHealth
from watchword.runtime.cache import Cache
from watchword.runtime.informer import Reduction, WatchScope

VERSION = "v1.34.0"


async def silence(_resource: Resource, _scope: WatchScope, _reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    await asyncio.Event().wait()
    yield  # type: ignore[misc]  # never reached: makes it a generator


@dataclass
class HealthServer:
    """Answers as an API server does, and counts."""

    well: bool = True
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: Request) -> Response:
        self.asked.append(request.path)
        if request.path == "/version":
            return Response(200, body=b'{"gitVersion":"%b"}' % VERSION.encode())
        return Response(200, body=b"ok") if self.well else Response(500, body=b"[-]etcd failed")

    def check(self) -> ApiServerHealthCheck:
        return ApiServerHealthCheck(Client(InProcessTransport(self.handle), retry=NO_RETRY), Cache(silence))


async def test_check_that_follows_at_once_sends_nothing() -> None:
    server = HealthServer()
    health = server.check()

    found = [await health.check(), await health.check()]

    assert found == [ClusterHealth(VERSION)] * 2
    assert server.asked == ["/livez", "/version"]


async def test_later_check_asks_again_and_tells_the_problem() -> None:
    server = HealthServer()
    health = server.check()
    await health.check()

    server.well = False
    await asyncio.sleep(60)

    assert (await health.check()).error
    assert (await health.check()).error
    assert server.asked == ["/livez", "/version", "/livez", "/livez"]
