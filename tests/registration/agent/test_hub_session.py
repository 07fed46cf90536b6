"""Which credential and which endpoint the agent uses, whatever its Secret and the bootstrap kubeconfig say."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import orjson
import pytest
from msgspec.structs import replace
from tests.helpers.cluster_info_server import ClusterInfoServer, FakeNetwork

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey, Resource
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import hub_kubeconfig
from watchword.credentials.driver import KUBECONFIG, NewCredential, Pending, SecretData, ValidCredential
from watchword.discovery.cluster_info import ClusterInfo
from watchword.kube.client import Client
from watchword.kube.errors import ClientCertificateRefused, ConfigError, Unreachable
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.transport import InProcessTransport, RequestHandler, Transport
from watchword.kube.watch import Snapshot, WatchUpdate
from watchword.pki.authority import Authority
from watchword.registration.agent.hub_connection import ConnectionReport, HubConnection
from watchword.registration.agent.hub_endpoint import HubEndpoint, HubEndpointMonitor
from watchword.registration.agent.hub_session import (
    REFUSAL_PATIENCE,
    REFUSAL_RETRY,
    REFUSAL_TRIAL,
    ActiveCredential,
    HubSession,
    is_new_refusal,
)
from watchword.registration.driver import BootstrapCredential
from watchword.runtime.cache import Cache
from watchword.runtime.event_loop import running
from watchword.runtime.informer import Reduction, WatchScope
from watchword.testing.virtual_time import VirtualClock

AUTHORITY = Authority.make("hub", now=datetime(2026, 1, 1, tzinfo=UTC))
A, B = (ClusterEntry(f"https://{name}:6443", ca_data=AUTHORITY.certificate.pem) for name in "ab")
DAMAGED = b"\x00 not a kubeconfig"


def a_secret(entry: ClusterEntry, certificate: bytes = b"old") -> dict[str, bytes]:
    return {"tls.crt": certificate, KUBECONFIG: hub_kubeconfig(entry, UserEntry())}


async def unheard(_resource: Resource, _scope: WatchScope, _reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    """Feed a cache of a hub that has not answered yet."""
    await asyncio.Event().wait()
    yield  # type: ignore[misc]  # never reached: makes it a generator


async def answer_nothing(_: Request) -> Response:
    return Response(503)


@dataclass
class RecordingConnector:
    """Records which endpoint and which credential each transport was made of."""

    bootstrap: ClusterEntry | None = None
    token: str = "first"
    used: list[tuple[str, bytes]] = field(default_factory=list)

    def entry(self) -> ClusterEntry:
        if self.bootstrap is None:
            raise ConfigError("there is no bootstrap kubeconfig")
        return self.bootstrap

    def has_bootstrap_credential(self) -> bool:
        return self.bootstrap is not None

    def bootstrap_credential(self) -> BootstrapCredential | None:
        return None if self.bootstrap is None else BootstrapCredential(f"{self.bootstrap.server} {self.token}", "hub")

    def joining(self) -> Transport:
        self.used.append((self.entry().server, self.token.encode()))
        return InProcessTransport(answer_nothing)

    def own(self, data: SecretData) -> Transport:
        self.used.append((parse_kubeconfig(data[KUBECONFIG]).choose().cluster.server, data["tls.crt"]))
        return InProcessTransport(answer_nothing)


@dataclass
class Session:
    """A session with a hub that has not answered, and what it connected with."""

    connector: RecordingConnector
    network: FakeNetwork = field(default_factory=FakeNetwork)

    def __post_init__(self) -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        hub = Cache(unheard)
        hub.informer(MANAGED_CLUSTERS)
        endpoint = HubEndpoint(self.connector)
        self.valid = ValidCredential(clock.now() + timedelta(days=2), clock.now() + timedelta(days=3))
        self.session = HubSession(
            cluster_name="edge-1",
            connection=HubConnection(),
            connector=self.connector,
            endpoint=endpoint,
            user=UserEntry(),
            hub=hub,
            clock=clock,
            random=Random(1),
            monitor=HubEndpointMonitor(endpoint=endpoint, client_factory=self.network),
        )

    @property
    def used(self) -> tuple[str, bytes]:
        return self.connector.used[-1]

    def serve(self, entry: ClusterEntry, authority: Authority = AUTHORITY) -> None:
        """Let a hub answer there."""
        self.network.servers[entry.server] = server = ClusterInfoServer(authority)
        server.publish(ClusterInfo((entry.server,), (authority.certificate,)))


@pytest.mark.parametrize(
    ("stored", "connections"),
    [
        pytest.param(a_secret(A), 1, id="the same credential is not taken up twice"),
        pytest.param(a_secret(A, b"new"), 2, id="a credential whose write was not confirmed is taken up"),
    ],
)
async def test_the_agent_uses_what_its_secret_holds(stored: SecretData, connections: int) -> None:
    session = Session(RecordingConnector(A))
    now, end = session.session.clock.now(), session.valid.expires_at
    first = a_secret(A)
    await session.session.update_credential(NewCredential(first, now, end, session.valid.renew_at), first)

    await session.session.update_credential(session.valid, stored)

    assert len(session.connector.used) == connections
    assert session.used == (A.server, stored["tls.crt"])


@dataclass
class UnusableConnector(RecordingConnector):
    """Cannot connect with one certificate."""

    unusable: bytes = b"new"

    def own(self, data: SecretData) -> Transport:
        if data["tls.crt"] == self.unusable:
            raise ConfigError("the certificate cannot be loaded")
        return super().own(data)


@pytest.mark.parametrize(
    ("connector", "used"),
    [
        pytest.param(RecordingConnector(A), "X509SHA256=2", id="the new credential is used"),
        pytest.param(UnusableConnector(A), "X509SHA256=1", id="the new credential cannot be used"),
    ],
)
async def test_session_knows_which_credential_its_connection_uses(connector: RecordingConnector, used: str) -> None:
    session = Session(connector)
    await session.session.resume(replace(session.valid, credential_id="X509SHA256=1"), a_secret(A))

    await session.session.update_credential(replace(session.valid, credential_id="X509SHA256=2"), a_secret(A, b"new"))

    assert session.session.used_credential_id == used


@pytest.mark.parametrize("kubeconfig", [DAMAGED, b""], ids=["damaged", "empty"])
async def test_a_damaged_kubeconfig_does_not_keep_the_agent_from_its_hub(kubeconfig: bytes) -> None:
    session = Session(RecordingConnector(A))

    await session.session.resume(session.valid, {**a_secret(A), KUBECONFIG: kubeconfig})

    assert session.session.active_credential is ActiveCredential.OWN
    assert session.used == (A.server, b"old")


async def test_an_agent_without_any_address_waits_for_a_bootstrap_kubeconfig() -> None:
    session = Session(RecordingConnector())
    resuming = asyncio.create_task(session.session.resume(session.valid, {**a_secret(A), KUBECONFIG: DAMAGED}))
    await asyncio.sleep(60)
    assert not resuming.done()

    session.connector.bootstrap = B
    await resuming

    assert session.used == (B.server, b"old")


async def test_a_restarted_agent_uses_the_new_address_of_its_bootstrap_kubeconfig() -> None:
    session = Session(RecordingConnector(B))
    session.serve(B)
    await session.session.resume(session.valid, a_secret(A))
    assert session.used == (A.server, b"old")

    async with running(session.session.run(), "session"):
        await asyncio.sleep(1)

    assert session.used == (B.server, b"old")
    assert session.session.endpoint.entry() == B


async def test_a_running_agent_uses_the_new_address_of_its_bootstrap_kubeconfig_at_once() -> None:
    session = Session(RecordingConnector(A))
    session.serve(B)
    await session.session.resume(session.valid, a_secret(A))

    async with running(session.session.run(), "session"):
        await asyncio.sleep(3600)
        session.connector.bootstrap = B
        await asyncio.sleep(6)

    assert session.connector.used == [(A.server, b"old"), (B.server, b"old")]


@pytest.mark.parametrize("authority", [None, Authority.make("other", now=datetime(2026, 1, 1, tzinfo=UTC))])
async def test_an_address_that_proves_nothing_is_not_used(authority: Authority | None) -> None:
    session = Session(RecordingConnector(B))
    session.serve(A)
    if authority is not None:
        session.serve(B, authority)
    await session.session.resume(session.valid, a_secret(A))

    async with running(session.session.run(), "session"):
        await asyncio.sleep(7200)

    assert session.connector.used == [(A.server, b"old")]


async def test_an_address_that_is_not_up_yet_is_used_once_it_answers() -> None:
    session = Session(RecordingConnector(B))
    await session.session.resume(session.valid, a_secret(A))
    async with running(session.session.run(), "session"):
        await asyncio.sleep(60)
        session.session.connection.unreachable.set()
        await asyncio.sleep(60)
        session.serve(B)
        session.session.connection.unreachable.set()
        await asyncio.sleep(120)

    assert session.used == (B.server, b"old")


async def test_a_joining_agent_uses_a_replaced_bootstrap_token_at_once() -> None:
    session = Session(RecordingConnector(A))
    await session.session.resume(None, {})

    async with running(session.session.run(), "session"):
        session.connector.token = "second"
        await asyncio.sleep(6)

    assert session.connector.used == [(A.server, b"first"), (A.server, b"second")]


async def test_the_endpoint_is_checked_seldom_and_at_most_once_a_minute_while_the_hub_is_unreachable() -> None:
    session = Session(RecordingConnector(A))
    session.serve(A)
    requests = session.network.servers[A.server].requests
    await session.session.resume(session.valid, a_secret(A))
    async with running(session.session.run(), "session"):
        await asyncio.sleep(timedelta(hours=10).total_seconds())
        idle = len(requests)
        for _ in range(600):
            session.session.connection.unreachable.set()
            await asyncio.sleep(1)

    assert idle <= 50
    assert 8 <= len(requests) - idle <= 11
    assert len(session.connector.used) == 1


async def refuse(_: Request) -> Response:
    return Response(401)


async def refuse_handshake(_: Request) -> Response:
    raise ClientCertificateRefused("the hub rejected the client certificate", maybe_processed=False)


@dataclass
class RefusedConnector(RecordingConnector):
    """Its hub refuses the cluster's own credential."""

    answer: RequestHandler = refuse

    def own(self, data: SecretData) -> Transport:
        super().own(data)
        return InProcessTransport(self.answer)


@pytest.mark.parametrize(
    "answer", [pytest.param(refuse, id="with 401"), pytest.param(refuse_handshake, id="with a TLS alert")]
)
async def test_refused_credential_is_not_good_again_before_the_hub_has_answered(answer: RequestHandler) -> None:
    session = Session(RefusedConnector(A, answer=answer))
    await session.session.resume(replace(session.valid, credential_id="X509SHA256=1"), a_secret(A))

    async with running(session.session.run(), "session"):
        with contextlib.suppress(Unreachable):
            await session.session.connection.send(Request("GET", "/version"))
        await asyncio.sleep((REFUSAL_PATIENCE + REFUSAL_RETRY + 2 * REFUSAL_TRIAL).total_seconds())

    assert session.session.refused_id == "X509SHA256=1"
    assert session.session.active_credential is ActiveCredential.BOOTSTRAP


async def test_note_that_cannot_be_written_is_tried_ever_less_often_until_it_is() -> None:
    requests, cache = list[Request](), Cache(unheard)
    cache.informer(SECRETS)
    answers = {"POST": Response(503)}

    async def answer(request: Request) -> Response:
        requests.append(request)
        return answers[request.method]

    report, client = ConnectionReport(), Client.from_handler(answer)
    report.connected("the hub cannot be reached")
    async with running(report.report(client, cache, ObjectKey("agents", "hub"), Random(1)), "report"):
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        failed = len(requests)
        answers["POST"] = Response(201, body=b"{}")
        await asyncio.sleep(timedelta(hours=1).total_seconds())

    assert failed <= 60
    assert len(requests) == failed + 1


async def test_note_of_which_a_stale_cache_knew_nothing_is_removed() -> None:
    requests, cache, key = list[Request](), Cache(unheard), ObjectKey("agents", "hub")
    informer = cache.informer(SECRETS)

    async def answer(request: Request) -> Response:
        requests.append(request)
        return Response(200, body=b"{}")

    report = ConnectionReport()
    report.connected()
    async with running(report.report(Client.from_handler(answer), cache, key, Random(1)), "report"):
        await asyncio.sleep(60)
        assert requests == []
        noted = {"uid": "1", "resourceVersion": "7", "annotations": {Annotation.HUB_UNREACHABLE: "down"}}
        informer.handle_update(Snapshot([orjson.dumps(SECRETS.manifest(key, metadata=noted))], "7"))
        await asyncio.sleep(60)

    assert [request.method for request in requests] == ["PATCH"]


REFUSAL = Pending("CSRDenied", "the hub denied the request", recheck=timedelta(minutes=2), failed=True)


@pytest.mark.parametrize(
    ("answer", "known", "expected"),
    [
        pytest.param(replace(REFUSAL, failed=False), None, False, id="waiting is no refusal"),
        pytest.param(replace(REFUSAL, recheck=timedelta(seconds=119)), REFUSAL, False, id="the same, a second later"),
        pytest.param(replace(REFUSAL, message="for another reason"), REFUSAL, True, id="for another reason"),
        pytest.param(REFUSAL, None, True, id="the first"),
    ],
)
def test_is_new_refusal(answer: Pending, known: Pending | None, *, expected: bool) -> None:
    assert is_new_refusal(answer, known) is expected


@pytest.mark.parametrize(
    ("valid_for", "clock_set_forward", "then"),
    [
        pytest.param(timedelta(days=3, seconds=-1), timedelta(0), timedelta(seconds=2), id="when it expires"),
        pytest.param(timedelta(hours=1), timedelta(days=3), timedelta(minutes=16), id="by a clock that was set"),
    ],
)
async def test_agent_whose_hub_never_answers_joins_again_when_its_credential_has_expired(
    valid_for: timedelta, clock_set_forward: timedelta, then: timedelta
) -> None:
    session = Session(RecordingConnector(A))
    await session.session.update_credential(session.valid, a_secret(A))
    clock = session.session.clock
    assert isinstance(clock, VirtualClock)

    async with running(session.session.run(), "session"):
        await asyncio.sleep(valid_for.total_seconds())
        before = session.session.active_credential
        clock.skew = clock_set_forward
        await asyncio.sleep(then.total_seconds())

    assert (before, session.session.active_credential) == (ActiveCredential.OWN, ActiveCredential.BOOTSTRAP)
