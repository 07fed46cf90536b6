"""A hub that starts before its API server waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from tests.helpers.fault_injection import FaultPlan, FaultyTransport

from watchword.accounts.hub import definition as accounts
from watchword.api.admission_policy import PolicyName, is_as_written
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import (
    NAMESPACES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.kube.client import Client
from watchword.kube.errors import Untrusted
from watchword.kube.transport import Transport
from watchword.operator.process import OperatorOptions, run_operator
from watchword.processes.hub import HubOptions, run_hub
from watchword.registration.hub import installation
from watchword.registration.hub.installation import install_agent_token_policy, is_installed, policy_manifests
from watchword.runtime.manager import run_first_requests
from watchword.runtime.metrics import Metrics
from watchword.testing.plane import Plane
from watchword.testing.process import free_port


class Network(FaultyTransport):
    """Refuses every connection until it is mended, and tells when it was tried."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner, FaultPlan(refuse=1.0), Random(1))
        self.tried = asyncio.Event()

    async def send(self, request: Request) -> Response:
        self.tried.set()
        return await super().send(request)


async def test_hub_waits_for_its_api_server(plane: Plane) -> None:
    client = plane.fresh_client()
    network = Network(client.transport)
    first = run_first_requests(lambda: installation.install(client.over(network)), Random(1), Metrics())
    installing = asyncio.create_task(first)
    await network.tried.wait()
    assert not installing.done()

    network.plan = FaultPlan()
    await installing

    assert await plane.client().find(NAMESPACES, ObjectKey.cluster(HUB_NAMESPACE)) is not None


async def test_hub_that_waits_can_be_stopped(plane: Plane) -> None:
    client, stop = plane.fresh_client(), asyncio.Event()
    network = Network(client.transport)
    work = run_hub(client.over(network), HubOptions(), clock=plane.clock, random=Random(1), stop=stop)
    running = asyncio.create_task(work)
    await network.tried.wait()

    stop.set()

    await running


async def test_hub_does_not_wait_for_a_server_that_it_does_not_trust() -> None:
    async def untrusted(_: Request) -> Response:
        raise Untrusted("its certificate is signed by another authority", maybe_processed=False)

    with pytest.raises(Untrusted):
        await run_first_requests(lambda: installation.install(Client.from_handler(untrusted)), Random(1), Metrics())


@pytest.mark.real_time
async def test_operator_that_waits_for_its_api_server_is_alive_and_not_ready(plane: Plane) -> None:
    client, stop, port = plane.fresh_client(), asyncio.Event(), free_port()
    network = Network(client.transport)
    options = OperatorOptions(health=("127.0.0.1", port))
    work = run_operator(client.over(network), options, clock=plane.clock, random=Random(1), stop=stop)
    running = asyncio.create_task(work)
    await network.tried.wait()

    answers = [await status_of(port, path) for path in ("/healthz", "/readyz")]

    stop.set()
    await running
    assert answers == [b"HTTP/1.1 200", b"HTTP/1.1 503"]


async def status_of(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read(12)
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"validationActions": ["Warn"]}, id="only warns"),
        pytest.param({"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}, id="for some objects"),
    ],
)
@pytest.mark.planes("embedded")  # a policy of the shared one guards the tests of others
async def test_a_binding_that_was_weakened_is_restored(plane: Plane, changed: Object) -> None:
    client, binding = plane.client(), ObjectKey.cluster(PolicyName.ACCEPTANCE)
    await installation.install(client)
    await client.patch(VALIDATING_ADMISSION_POLICY_BINDINGS, binding, {"spec": changed})

    await installation.install(client)

    found = [await client.get(kind, ObjectKey.of(wanted)) for kind, wanted in policy_manifests()]
    assert is_installed(found)


@pytest.mark.planes("embedded")
@pytest.mark.parametrize(
    ("name", "install"),
    [
        pytest.param(PolicyName.AGENT_TOKENS, install_agent_token_policy, id="tokens of agents"),
        pytest.param(PolicyName.ACCOUNT_SECRETS, accounts.install, id="secrets of accounts"),
    ],
)
async def test_the_policy_of_another_installation_is_restored(
    plane: Plane, name: PolicyName, install: Callable[[Client], Awaitable[None]]
) -> None:
    client, binding = plane.client(), ObjectKey.cluster(name)
    await installation.install(client)
    await install(client)
    await client.patch(VALIDATING_ADMISSION_POLICY_BINDINGS, binding, {"spec": {"validationActions": ["Warn"]}})

    await install(client)

    found = await client.get(VALIDATING_ADMISSION_POLICY_BINDINGS, binding)
    assert found["spec"]["validationActions"] == ["Deny"]


async def test_every_policy_is_stored_as_it_was_written(plane: Plane) -> None:
    client = plane.client()
    await installation.install(client)
    await accounts.install(client)

    wanted_of_all = [*installation.manifests(), *accounts.manifests()]
    rows = [row for row in wanted_of_all if row[0].group == VALIDATING_ADMISSION_POLICIES.group]
    stored = [(await client.get(resource, ObjectKey.of(wanted)), wanted) for resource, wanted in rows]

    assert rows
    assert [ObjectKey.of(wanted) for found, wanted in stored if not is_as_written(found, wanted)] == []
