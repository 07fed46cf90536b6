"""The add-on of Open Cluster Management is exchanged for ours and back while its tokens are in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from tests.accounts.fleet import AccountsFleet, Member
from tests.accounts.test_ocm_takeover import OCM, recorded
from tests.ocm_programs import OcmPrograms, find_program, run_ocm_programs
from tests.work.work_environment import work_environment_of

from watchword.accounts.hub.definition import AGENT_COMMAND, DEPLOYMENT
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import certificate_subject
from watchword.api.meta import Object, ObjectKey, finalizers_of, owner_reference, uid_of
from watchword.api.names import Finalizer, addon_group, service_account_user
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, DEPLOYMENTS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.kube.access_reviews import who_am_i
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.kube.tokens import request_token
from watchword.runtime.event_loop import running
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.process import ChildProcess, free_port

pytestmark = [pytest.mark.real_time, pytest.mark.planes("kube-apiserver"), pytest.mark.timeout(300)]


@dataclass
class OcmAddon:
    """The manager and the agents of Open Cluster Management's add-on."""

    fleet: AccountsFleet
    programs: OcmPrograms
    manager: ChildProcess | None = None
    agents: dict[str, ChildProcess] = field(default_factory=dict)

    def start_manager(self) -> None:
        kubeconfig = self.fleet.plane.kubeconfig
        self.manager = self.programs.start(
            "msa", "manager", f"--kubeconfig={kubeconfig}", *_addresses(), environment={"NAMESPACE": "default"}
        )

    def stop_manager(self) -> None:
        assert self.manager is not None
        self.manager.stop()

    async def start_agent(self, member: Member) -> None:
        """Run the agent with the rights that its manager and its work have given it."""
        subject = certificate_subject(member.name, ADDON_NAME)
        groups = (addon_group(member.name, ADDON_NAME),)
        hub = self.fleet.plane.kubeconfig_for(subject.user, groups)
        local = await self._local_kubeconfig(member)
        self.agents[member.name] = self.programs.start(
            "msa",
            "agent",
            f"--kubeconfig={hub}",
            f"--spoke-kubeconfig={local}",
            f"--cluster-name={member.name}",
            *_addresses(),
            environment={"NAMESPACE": member.namespace, "HUB_KUBECONFIG": str(hub)},
        )

    def stop_agent(self, member: Member) -> None:
        self.agents.pop(member.name).stop()

    async def _local_kubeconfig(self, member: Member) -> Path:
        key = ObjectKey(member.namespace, ADDON_NAME)
        issued = await request_token(self.fleet.client, key, expiration_seconds=3600)
        entry = ClusterEntry(self.fleet.server, ca_data=member.ca)
        user, context = UserEntry(token=issued.token), ContextEntry("cluster", "agent")
        path = self.programs.folder / f"{member.name}.kubeconfig"
        path.touch(0o600)
        path.write_bytes(dump_kubeconfig(Kubeconfig({"cluster": entry}, {"agent": user}, {"agent": context}, "agent")))
        return path


def _addresses() -> tuple[str, str]:
    return f"--metrics-bind-address=127.0.0.1:{free_port()}", "--health-probe-bind-address=0"


@pytest.fixture(autouse=True)
def programs_at_hand() -> None:
    find_program("msa")


@pytest.fixture
def ocm(fleet: AccountsFleet, tmp_path: Path) -> Iterator[OcmAddon]:
    with run_ocm_programs(tmp_path) as programs:
        yield OcmAddon(fleet, programs)


@dataclass
class Consumer:
    """Uses a token all the time, and notes what the cluster answered."""

    fleet: AccountsFleet
    token: Sensitive[str]
    users: set[str] = field(default_factory=set)
    requests: int = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async with running(self._use(), "consumer"):
            yield
        assert self.requests > 0

    async def _use(self) -> None:
        client = self.fleet.as_token(self.token.reveal())
        while True:
            self.users.add((await who_am_i(client)).username)  # a refusal ends the test
            self.requests += 1
            await asyncio.sleep(0.05)

    def require_accepted(self, account: ObjectKey) -> None:
        """Fail unless every request was answered for that ServiceAccount."""
        assert self.users == {service_account_user(account.namespace, account.name)}


class Exchange:
    """One account whose token is used while hub side and agent are exchanged."""

    def __init__(self, fleet: AccountsFleet, ocm: OcmAddon, member: Member) -> None:
        self.fleet = fleet
        self.ocm = ocm
        self.member = member
        self.served = 0

    async def deployed(self, program: str) -> None:
        """Wait until the work agent has deployed this agent to the cluster."""

        def runs(deployment: Object | None) -> bool:
            [container] = (deployment or {})["spec"]["template"]["spec"]["containers"] if deployment else [{}]
            return program in [*container.get("command", ()), *container.get("args", ())]

        await eventually(self.fleet.client, DEPLOYMENTS, ObjectKey(self.member.namespace, DEPLOYMENT), runs)

    async def serves(self) -> None:
        """Require that whatever runs now serves one more account."""
        self.served += 1
        key = await self.fleet.declare(self.member.name, f"robot-{self.served}", kind=OCM)
        await self.fleet.until(key, kind=OCM)
        secret = await self.fleet.secret(key)
        assert (await who_am_i(self.fleet.as_token(secret.token.reveal()))).username.endswith(f":{key.name}")

    async def hub_side_of_ocm(self) -> None:
        """Run the manager of Open Cluster Management in place of ours."""
        await self.fleet.stop_manager()
        self.ocm.start_manager()
        await self.deployed("/msa")

    async def hub_side_of_ours(self) -> None:
        """Run our manager in place of theirs."""
        self.ocm.stop_manager()
        self.fleet.start_manager()
        await self.deployed(AGENT_COMMAND)

    async def agent_of_ocm(self) -> None:
        """Run the agent of Open Cluster Management in place of ours."""
        if self.member.agent is not None:
            await self.fleet.stop_agent(self.member)
        await self.ocm.start_agent(self.member)

    async def agent_of_ours(self) -> None:
        """Run our agent in place of theirs."""
        self.ocm.stop_agent(self.member)
        await self.fleet.start_agent(self.member)
        await recorded(self.fleet, ObjectKey(self.member.name, "robot"))

    async def all_of_ours(self) -> None:
        """Run our manager in place of theirs, and then the agent that it deploys."""
        await self.hub_side_of_ours()
        await self.agent_of_ours()

    async def all_of_ocm(self) -> None:
        """Run their manager in place of ours, and then the agent that it deploys."""
        await self.hub_side_of_ocm()
        await self.agent_of_ocm()


Step = Callable[[Exchange], Awaitable[None]]
STEPS = (
    pytest.param(
        (Exchange.agent_of_ours, Exchange.hub_side_of_ours, Exchange.hub_side_of_ocm, Exchange.agent_of_ocm),
        id="agent before hub side",
    ),
    pytest.param((Exchange.all_of_ours, Exchange.all_of_ocm), id="agent as the hub side deploys it"),
)


@pytest_asyncio.fixture
async def exchange(fleet: AccountsFleet, ocm: OcmAddon) -> AsyncIterator[Exchange]:
    """A cluster with the add-on of Open Cluster Management alone."""
    await fleet.stop_manager()
    ocm.start_manager()
    member = await fleet.cluster(addon=False)
    async with work_environment_of(fleet.plane, member.name, member.namespace) as works:
        works.start()
        listed = await fleet.client.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(ADDON_NAME))
        await fleet.register(member, ownerReferences=[owner_reference(listed)])
        running = Exchange(fleet, ocm, member)
        await running.deployed("/msa")
        await running.agent_of_ocm()
        yield running


@pytest.mark.parametrize("steps", STEPS)
async def test_hub_side_and_agent_are_exchanged_and_back_while_a_token_is_in_use(
    fleet: AccountsFleet, exchange: Exchange, steps: Sequence[Step]
) -> None:
    key = await fleet.declare(exchange.member.name, "robot", kind=OCM)
    local = fleet.local(exchange.member, "robot")
    await fleet.until(key, kind=OCM)
    exchange.ocm.stop_agent(exchange.member)  # it may request a token twice before it sees its own status
    first, account = await fleet.secret(key), await fleet.client.get(SERVICE_ACCOUNTS, local)
    consumer = Consumer(fleet, first.token)
    await exchange.agent_of_ocm()

    async with consumer.at_work():
        for step in steps:
            await step(exchange)
            await exchange.serves()
            now = await fleet.secret(key)
            assert (now.token, uid_of(now.object)) == (first.token, uid_of(first.object))
            assert uid_of(await fleet.client.get(SERVICE_ACCOUNTS, local)) == uid_of(account)

    consumer.require_accepted(local)
    await release(fleet, exchange.member)
    await fleet.client.delete(OCM, key)
    for resource, gone in ((OCM, key), (SECRETS, key), (SERVICE_ACCOUNTS, local)):
        await eventually(fleet.client, resource, gone, is_gone)


async def release(fleet: AccountsFleet, member: Member) -> None:
    """Do what the guide says before accounts are left to Open Cluster Management."""
    for account in (await fleet.client.list(OCM, namespace=member.name)).items:
        kept = [name for name in finalizers_of(account) if name != Finalizer.ACCOUNT]
        await fleet.client.patch(OCM, ObjectKey.of(account), {"metadata": {"finalizers": kept}})
