"""A control plane without access rules, for tests of the verbs themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from watchword.api.http import Request, Response
from watchword.apiserver.authz.model import Decision
from watchword.apiserver.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.plane import Access, ControlPlane
from watchword.apiserver.store.memory import MemoryStore

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class AllowAll:
    """Lets everybody do everything: for tests of what comes after authorization."""

    def decide(self, user: User, info: RequestInfo) -> Decision:
        return Decision(allowed=True)


async def as_tester(_: HandlerRequest) -> User:
    return User("tester", groups=("system:masters", "system:authenticated"))


class Api:
    """Speaks raw requests to a control plane, so that tests see codes and headers."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> Response:
        sent = {"User-Agent": "tests/1", **({"Content-Type": "application/json"} if body is not None else {})}
        sent.update(headers or {})
        data = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        request = Request(method, path, tuple(query.items()), tuple(sent.items()), data)
        return await self.plane.handle(request)

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Return the decoded answer, whatever its code."""
        decoded: dict[str, Any] = orjson.loads((await self.send(method, path, body, **options)).body)
        return decoded


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """An API over memory in which the namespace `default` exists."""
    plane = ControlPlane(MemoryStore(), lambda: NOON, Access(as_tester, AllowAll()))
    await plane.start()
    found = Api(plane)
    await found.send("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    yield found
    await plane.stop()
