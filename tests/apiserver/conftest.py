"""A control plane without access rules, for tests of the verbs themselves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey, Resource
from watchword.api.sensitive import Sensitive
from watchword.apiserver.access.chain import StaticToken
from watchword.apiserver.access.config import AccessControl, access_control_factory
from watchword.apiserver.access.pki_directory import ephemeral_access_config
from watchword.apiserver.access.rbac import AuthorizationDecision
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.serving.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.serving.watch import BOOKMARK_EVERY
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.store.model import Store, StoreChange, path_of
from watchword.testing.virtual_time import VirtualClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class AllowAll:
    """Allows everything: for tests of what comes after authorization."""

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


async def as_tester(_: HandlerRequest) -> User:
    return User("tester", groups=("system:masters", "system:authenticated"))


class Api:
    """Sends raw requests to a control plane, so that tests see codes and headers."""

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
        """Return the decoded response, whatever its code."""
        decoded: dict[str, Any] = orjson.loads((await self.send(method, path, body, **options)).body)
        return decoded

    async def store_unchecked(self, resource: Resource, obj: Any) -> None:
        """Store an object past validation and admission, as another version of this program may have done."""
        bucket, path = resource.group_resource, path_of(ObjectKey.of(obj))
        found = self.plane.store.get(bucket, path)
        body = orjson.dumps(resource.manifest(ObjectKey.of(obj)) | obj)
        await self.plane.store.write(StoreChange(bucket, path, found.revision if found else 0, lambda _: body))


@pytest.fixture
def bookmark_every() -> float:
    """How many seconds lie between two bookmarks of a watch."""
    return BOOKMARK_EVERY


@pytest.fixture
async def api(bookmark_every: float) -> AsyncIterator[Api]:
    """An API over memory in which the namespace `default` exists."""
    plane = ControlPlane(
        MemoryStore(), lambda: NOON, lambda _: AccessControl(as_tester, AllowAll()), bookmark_every=bookmark_every
    )
    await plane.start()
    found = Api(plane)
    await found.send("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    yield found
    await plane.stop()


ADMIN_TOKEN = "admin-of-this-instance"


class SecuredApi(Api):
    """A standard control plane in virtual time: every access rule applies, every controller runs."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.rules = replace(
            ephemeral_access_config(self.clock.now),
            issuer="https://issuer.test",
            admin_tokens=(StaticToken(Sensitive(ADMIN_TOKEN), User("admin", groups=("system:masters",))),),
        )
        super().__init__(self.new_plane(MemoryStore()))

    def new_plane(self, store: Store) -> ControlPlane:
        access = access_control_factory(self.rules, now=self.clock.now, entropy=os.urandom)
        return ControlPlane(store, self.clock.now, access)

    async def call(self, method: str, path: str, body: Any = None, *, token: str = ADMIN_TOKEN) -> Any:
        """Return (code, decoded response) of a request with a bearer token; anonymous without one."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = await self.send(method, path, body, headers=headers)
        await asyncio.sleep(0.001)  # virtual: whatever the controllers have to do happens first
        return response.status, orjson.loads(response.body) if response.body[:1] == b"{" else response.body

    async def as_user(self, name: str, method: str, path: str, body: Any = None, *groups: str) -> Any:
        """Return (code, decoded response) of a request as a user."""
        headers = [("Authorization", f"Bearer {ADMIN_TOKEN}"), ("Impersonate-User", name)]
        headers += [("Impersonate-Group", group) for group in groups]
        data = b"" if body is None else orjson.dumps(body)
        response = await self.plane.handle(Request(method, path, (), tuple(headers), data))
        return response.status, orjson.loads(response.body) if response.body[:1] == b"{" else response.body

    async def grant(self, user: str, *rules: Mapping[str, Any], namespace: str = "") -> None:
        """Give a user these rules by a role and binding of their own."""
        root = "/apis/rbac.authorization.k8s.io/v1" + (f"/namespaces/{namespace}" if namespace else "")
        kind = "Role" if namespace else "ClusterRole"
        name = f"granted-{user.replace(':', '-')}"
        await self.call("POST", f"{root}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
        subjects = [{"kind": "User", "name": user}]
        binding = {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects}
        await self.call("POST", f"{root}/{kind.lower()}bindings", binding)


@pytest.fixture
async def secured_api() -> AsyncIterator[SecuredApi]:
    """A control plane with the standard access rules."""
    found = SecuredApi()
    await found.plane.start()
    await asyncio.sleep(0.001)  # virtual: the controllers settle
    yield found
    await found.plane.stop()
