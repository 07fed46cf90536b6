"""The dashboard over one control plane, asked in-process as a browser asks."""

from __future__ import annotations

import asyncio
import base64
import http.client
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import orjson

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from watchword.dashboard.fleet import Fleet
from watchword.dashboard.process import observe_readable
from watchword.dashboard.server import DashboardServer
from watchword.dashboard.viewers import OwnRights, ReviewedRights, Viewers
from watchword.kube.client import Client
from watchword.kube.tokens import request_token
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import running
from watchword.testing.builders import a_service_account
from watchword.testing.plane import Plane

HOST = "127.0.0.1:8080"
ORIGIN = f"http://{HOST}"


@dataclass
class ShiftedClock:
    """A clock that the test sets."""

    base: Clock
    shift: timedelta = timedelta(0)

    def now(self) -> datetime:
        """Return the shifted instant."""
        return self.base.now() + self.shift


@dataclass
class DashboardHarness:
    """Sends requests as a browser on the dashboard's own page does, with the cookie of its session."""

    server: DashboardServer
    cookie: str = ""

    async def get(self, path: str, **headers: str) -> Response:
        """Read a path."""
        return await self.send("GET", path, b"", **headers)

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        """Send a request; a header that is given replaces the usual one, an empty one removes it."""
        where = urlsplit(path)
        query = tuple(tuple(pair.split("=", 1)) for pair in where.query.split("&") if pair)
        usual = {"Host": HOST, "Cookie": self.cookie, **({"Origin": ORIGIN} if method == "POST" else {})}
        sent = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        rows = tuple((name, value) for name, value in sent.items() if value)
        return await self.server.handle(Request(method, where.path, cast("Any", query), rows, body))

    async def open_address(self) -> Response:
        """Open the one-time address, and keep the cookie."""
        answer = await self.get(f"/?code={self.code()}", Sec_Fetch_Site="none")
        self.cookie = answer.header("Set-Cookie").partition(";")[0]
        return answer

    def code(self) -> str:
        """Return the code of the address that is printed now."""
        return self.server.viewers.sessions.code(self.server.viewers.clock.now())

    async def sign_in(self, token: str) -> Response:
        """Sign in with a bearer token, and keep the cookie."""
        answer = await self.send("POST", "/login", urlencode({"token": token}).encode())
        self.cookie = answer.header("Set-Cookie").partition(";")[0]
        return answer

    @asynccontextmanager
    async def live(self) -> AsyncIterator[LiveBoard]:
        """Follow the stream of changes."""
        answer = await self.get("/api/live")
        assert answer.status == 200, answer.body
        async with aclosing(cast("AsyncGenerator[bytes, None]", answer.stream)) as stream:
            yield LiveBoard(stream)

    async def board(self) -> dict[str, Any]:
        """Return everything that this session may see.

        In virtual time a second passes only once every watch has delivered what was written.
        """
        await asyncio.sleep(1)
        async with self.live() as live:
            return await live.board()

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        return [row for row in (await self.board())["put"].values() if row["table"] == table]

    async def names(self, table: str) -> set[str]:
        """Return the names of the rows of a table; of credentials, their kinds."""
        return {row.get("name") or row["kind"] for row in await self.rows(table)}


@dataclass
class LiveBoard:
    """The events of one stream."""

    stream: AsyncGenerator[bytes, None]

    async def event(self) -> tuple[str, dict[str, Any]]:
        """Return the next event and its data."""
        async for chunk in self.stream:
            lines = dict(line.split(": ", 1) for line in chunk.decode().strip().split("\n"))
            if "event" in lines:
                return lines["event"], orjson.loads(lines["data"])
        return "", {}

    async def board(self) -> dict[str, Any]:
        """Return everything that is sent at first, in however many events."""
        name, board = await self.event()
        assert name == "board", name
        while board["left"]:
            _, more = await self.event()
            board = {**board, **more, "put": {**board["put"], **more["put"]}}
        return board

    async def change(self) -> tuple[str, dict[str, Any]]:
        """Return the next event that changes a row, or the end; there are four events in a minute at least."""
        for _ in range(20):
            name, data = await self.event()
            if name != "update" or data["put"] or data["gone"]:
                return name, data
        raise AssertionError("nothing changed")


@asynccontextmanager
async def open_dashboard(
    plane: Plane, client: Client | None = None, *, login: bool = False
) -> AsyncIterator[DashboardHarness]:
    """Run the dashboard with a client's rights, without a socket."""
    own = client or plane.client()
    async with observe_readable(own) as observer:
        fleet = Fleet(observer, plane.clock)
        viewers: Viewers = OwnRights(own, plane.clock)
        if login:
            viewers = ReviewedRights(own, plane.clock, fleet.index.places)
        async with running(fleet.run(), "dashboard rows"):
            yield DashboardHarness(DashboardServer(fleet, viewers))


async def a_person(plane: Plane, name: str) -> tuple[ObjectKey, str]:
    """Make a service account without rights; return it with a token of it."""
    key = ObjectKey(await plane.namespace("people"), name)
    await plane.client().create(SERVICE_ACCOUNTS, a_service_account(name, namespace=key.namespace))
    issued = await request_token(plane.client(), key, expiration_seconds=3600)
    return key, issued.token.reveal()


async def allow(plane: Plane, person: ObjectKey, rule: Mapping[str, Any], *, namespace: str = "") -> None:
    """Grant a rule everywhere, or in one namespace."""
    role = plane.unique("dashboard-viewer")
    await plane.client().create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(ObjectKey.cluster(role), rules=[dict(rule)]))
    bindings = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    subject: Object = {"kind": "ServiceAccount", "name": person.name, "namespace": person.namespace}
    made = bindings.manifest(
        ObjectKey(namespace, role),
        roleRef={"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[subject],
    )
    await plane.client().create(bindings, made)


def read(resource: str, group: str, *names: str) -> dict[str, Any]:
    """Return a rule that reads a kind, or some objects of it."""
    rule = {"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]}
    return {**rule, "resourceNames": list(names)} if names else rule


def fetch(address: str, cookie: str = "") -> http.client.HTTPResponse:
    """Read an address of a dashboard that listens."""
    where = urlsplit(address)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port or 0, timeout=60)
    connection.request("GET", f"{where.path}?{where.query}", headers={"Cookie": cookie})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def a_request(cluster: str) -> Object:
    """Return a request of an agent for its certificate."""
    key = PrivateKey.generate()
    csr = build_csr(key, CertificateSubject(f"system:open-cluster-management:{cluster}:agent1"))
    return CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster(f"{cluster}-1"),
        metadata={"labels": {Label.CLUSTER_NAME: cluster}},
        spec={
            "request": base64.b64encode(csr).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    )
