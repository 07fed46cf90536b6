"""A hub on a socket with its controllers running, and clusters whose agents a test starts."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio
from tests.helpers.collections import delete_collection

from watchword.api.bootstrap import TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import (
    BOOTSTRAP_KUBECONFIG_SECRET,
    HUB_KUBECONFIG_SECRET,
    IMAGE,
    IMAGE_VARIABLE,
    ConditionType,
    Label,
)
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.cli.main import run
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.processes.agent import AgentRuntime, run_agent
from watchword.processes.hub import HubOptions, run_hub
from watchword.registration.agent.options import AgentOptions
from watchword.testing.eventually import eventually, eventually_all, exists
from watchword.testing.plane import Plane

Output = pytest.CaptureFixture[str]


@dataclass
class Fleet:
    """One control plane that is hub and managed cluster at once; commands run as its administrator."""

    plane: Plane
    folder: Path
    output: Output
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.plane.client()

    def unique(self, prefix: str) -> str:
        """Return a name that no other test uses, also where tests share a control plane."""
        return f"{prefix}-{secrets.token_hex(3)}"

    async def run(self, *argv: str, code: int = 0) -> str:
        """Run a command and return what it printed; check its exit code."""
        told = await asyncio.to_thread(run, [*argv, "--kubeconfig", str(self.plane.kubeconfig)])
        shown = self.output.readouterr()
        assert told == code, f"exit code {told}: {shown.err}"
        return shown.out if code == 0 else shown.out + " ".join(shown.err.split())

    async def start(self, *argv: str) -> int:
        """Run a command beside others and return its exit code."""
        return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(self.plane.kubeconfig)])

    async def init(self, *flags: str) -> list[str]:
        """Make the hub and return the arguments of the join command, without the cluster's name."""
        path = self.folder / "join-command"
        await self.run("init", "--no-deploy", "--output-join-command-file", str(path), *flags)
        return path.read_text().split()[2:-2]

    def start_hub(self) -> None:
        """Run the hub's controllers."""
        options = HubOptions(elect=False, own_ca=self.plane.ca_pem, install=False)
        work = run_hub(self._connect(), options, clock=self.plane.clock, random=Random(1))
        self.tasks.append(asyncio.create_task(work))

    async def write_bootstrap(self, namespace: str, server: str = "") -> Path:
        """Write the bootstrap Secret's kubeconfig to a file, as the kubelet does; with another address if given."""
        secret = await self.client.get(SECRETS, ObjectKey(namespace, BOOTSTRAP_KUBECONFIG_SECRET))
        text = base64.b64decode(secret["data"]["kubeconfig"])
        path = self.folder / f"{namespace}.kubeconfig"
        path.write_bytes(text.replace(self.plane.server.encode(), server.encode()) if server else text)
        return path

    async def start_agent(self, name: str, namespace: str, agent: str = "", *, server: str = "") -> asyncio.Task[None]:
        """Run the agent as the Deployment would: with the bootstrap Secret as a file."""
        path = await self.write_bootstrap(namespace, server)
        options = AgentOptions(name, agent_name=agent, namespace=namespace, bootstrap_kubeconfig=path, elect=False)
        runtime = AgentRuntime(clock=self.plane.clock, random=Random(name), controllers=())
        task = asyncio.create_task(run_agent(self._connect(), options, runtime=runtime))
        self.tasks.append(task)
        return task

    async def request_of(self, name: str) -> Object:
        """Wait for the cluster's certificate request."""
        state = await eventually_all(
            self.client, CERTIFICATE_SIGNING_REQUESTS, lambda found: any(_asks_for(csr, name) for csr in found.values())
        )
        return next(csr for csr in state.values() if _asks_for(csr, name))

    async def asked(self, name: str) -> None:
        """Wait until a cluster has registered and requested its certificate."""
        await eventually(self.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), exists)
        await self.request_of(name)

    def _connect(self) -> Client:
        client = connect(self.plane.kubeconfig)
        self.clients.append(client)
        return client

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for client in self.clients:
            await client.close()
        # Tokens are listed whole, and other tests may share this control plane.
        await delete_collection(
            self.client, SECRETS, namespace=TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}"
        )


def _asks_for(csr: Object, name: str) -> bool:
    return (csr["metadata"].get("labels") or {}).get(Label.CLUSTER_NAME) == name


@dataclass
class Member:
    """One cluster of the fleet, with a Klusterlet and a namespace of its own."""

    fleet: Fleet
    name: str
    join_arguments: list[str]
    agent: asyncio.Task[None] | None = None

    @property
    def namespace(self) -> str:
        return f"open-cluster-management-{self.name}"

    @property
    def own(self) -> list[str]:
        """The flags that distinguish this cluster from others on the same control plane."""
        return ["--cluster-name", self.name, "--klusterlet-name", self.name, "--namespace", self.namespace]

    async def join(self, *flags: str, code: int = 0) -> str:
        return await self.fleet.run("join", *self.join_arguments, *self.own, "--no-deploy", *flags, code=code)

    async def asks(self) -> None:
        """Join, start the agent, and wait until the cluster has requested its certificate."""
        await self.join()
        self.agent = await self.fleet.start_agent(self.name, self.namespace)
        await self.fleet.asked(self.name)

    async def asked_as(self, user: str) -> None:
        """Wait until the cluster has asked for its certificate as this user."""
        await eventually_all(
            self.fleet.client,
            CERTIFICATE_SIGNING_REQUESTS,
            lambda found: any(_asks_for(csr, self.name) and csr["spec"]["username"] == user for csr in found.values()),
        )

    async def bootstrap_kubeconfig(self) -> bytes:
        secret = await self.fleet.client.get(SECRETS, ObjectKey(self.namespace, BOOTSTRAP_KUBECONFIG_SECRET))
        return base64.b64decode(secret["data"]["kubeconfig"])

    async def loses_its_credential(self) -> None:
        """Start again without the Secret: the agent requests a certificate for a new key, with its token."""
        await self.stop()
        await self.fleet.client.delete(SECRETS, ObjectKey(self.namespace, HUB_KUBECONFIG_SECRET))
        self.agent = await self.fleet.start_agent(self.name, self.namespace)
        await eventually_all(
            self.fleet.client,
            CERTIFICATE_SIGNING_REQUESTS,
            lambda found: any(_asks_for(csr, self.name) and not csr["status"] for csr in found.values()),
        )

    async def stop(self) -> None:
        """End the agent, as a killed process would."""
        assert self.agent is not None
        self.agent.cancel()
        await asyncio.gather(self.agent, return_exceptions=True)

    async def hub_moves_away(self) -> None:
        """Let the credential point to a port without a listener."""
        key = ObjectKey(self.namespace, HUB_KUBECONFIG_SECRET)
        text = base64.b64decode((await self.fleet.client.get(SECRETS, key))["data"]["kubeconfig"])
        moved = text.replace(self.fleet.plane.server.encode(), b"https://127.0.0.1:1")
        patch = {"data": {"kubeconfig": base64.b64encode(moved).decode()}}
        await self.fleet.client.patch(SECRETS, key, patch)

    async def has_credential(self) -> None:
        key = ObjectKey(self.namespace, HUB_KUBECONFIG_SECRET)
        await eventually(
            self.fleet.client, SECRETS, key, lambda found: found is not None and "tls.crt" in (found.get("data") or {})
        )

    async def joined(self) -> Object:
        return await self.condition(ConditionType.JOINED, "True")

    async def condition(self, kind: str, status: str) -> Object:
        def says_so(found: Object | None) -> bool:
            said = find_condition(found or {}, kind)
            return said is not None and said.status == status

        return await eventually(self.fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(self.name), says_so)


@pytest_asyncio.fixture
async def cli_fleet(
    logs_in_file: Path, plane: Plane, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Fleet]:
    """A control plane on which commands run; its hub's controllers are the test's to start."""
    if plane.name != "embedded":
        monkeypatch.setenv(IMAGE_VARIABLE, IMAGE)  # on another server `init` asks for an image
    await plane.controllers(
        "certificatesigningrequest-signing-controller",
        "certificatesigningrequest-approving-controller",
        "namespace-controller",
        "garbage-collector-controller",
        "serviceaccount-controller",
    )
    running = Fleet(plane, logs_in_file.parent, capsys)
    yield running
    await running.close()


@pytest_asyncio.fixture
async def member(cli_fleet: Fleet) -> Member:
    """A cluster with a join command for a hub whose controllers run."""
    arguments = await cli_fleet.init("--no-probe")
    cli_fleet.start_hub()
    return Member(cli_fleet, cli_fleet.unique("edge"), arguments)
