"""What the pods of a fleet on this machine do: the same as the program, with the pod's own identity."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeAlias

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.accounts.agent.process import AccountsAgentOptions, run_accounts_agent
from watchword.addons.sample.agent import SampleAgent
from watchword.api.limits import MAX_LOG_BYTES
from watchword.api.time import rfc3339
from watchword.api.validation import parse_duration
from watchword.apiserver.node.model import HttpProbe, Launch
from watchword.health.recent_events import FleetEvent
from watchword.kube.client import Client
from watchword.kube.connect import connect, incluster_credential, incluster_endpoint
from watchword.kube.transport import InProcessTransport, RequestHandler
from watchword.operator.process import OperatorOptions, run_operator
from watchword.processes.agent import AgentRuntime, run_agent
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.pullsecrets.process import PullSecretOptions, run_pull_secrets
from watchword.registration.agent.options import AgentOptions
from watchword.registration.hub.cluster_removal import RETENTION, ClusterCleanup
from watchword.registration.hub.installation import install_agent_token_policy
from watchword.runtime.clock import Clock
from watchword.runtime.leader_election import ElectionTiming

SECOND = slice(19)  # of an instant in RFC 3339: some events have microseconds, conditions have none
_pod_log: ContextVar[Path | None] = ContextVar("pod_log", default=None)


class EventLog(Struct):
    """Remembers what was read last.

    A condition whose message changes keeps its lastTransitionTime: a renewal would be shown at the time of the first
    issuance. An event that takes the place of another one of the same object and instant gets the time of the reading.
    """

    _last: frozenset[FleetEvent] = frozenset()
    _corrected: dict[FleetEvent, FleetEvent] = field(default_factory=dict)

    def read(self, rows: Sequence[FleetEvent], now: datetime) -> Sequence[FleetEvent]:
        present = frozenset(rows)
        replaced = {(row.about, row.at) for row in self._last - present}
        for row in present - self._last:
            if (row.about, row.at) in replaced:
                self._corrected[row] = replace(row, at=rfc3339(now))
        self._corrected = {row: own for row, own in self._corrected.items() if row in present}
        self._last = present
        return sorted((self._corrected.get(row, row) for row in rows), key=lambda row: row.at[SECOND])


class PodLogStream(Struct, frozen=True):
    """A stream that writes each line to the log of the whole, and to that of the pod whose task logs it.

    A log that cannot be written, on a full disk, stops nothing. One older file of each log is kept.
    """

    whole: Path

    def write(self, text: str) -> int:
        for path in filter(None, (self.whole, _pod_log.get())):
            with suppress(OSError):
                if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
                    path.replace(path.with_suffix(".log.1"))
                with path.open("a", encoding="utf-8") as log:
                    log.write(text)
        return len(text)

    def flush(self) -> None:
        """Return: every line is written at once."""

    def isatty(self) -> bool:
        return False


CommandFunction: TypeAlias = Callable[[Launch, Client, asyncio.Event], Awaitable[None]]
"""Does what the program does under that command, until the event is set."""

KILLED = 137
SAMPLE_EVERY = timedelta(seconds=20)
TIMING = ElectionTiming(lease=60, renew_deadline=40.0, retry=15.0)
"""One replica of each, which keeps its identity after a crash: it need not wait for the lease to expire."""


class RunningTask(Struct):
    """A container that is a task; it is well as long as it runs."""

    task: asyncio.Task[None]
    stop: asyncio.Event

    async def wait(self) -> int:
        await asyncio.wait({self.task})
        if self.task.cancelled():
            return KILLED
        return 0 if self.task.exception() is None else 1

    def terminate(self) -> None:
        self.stop.set()

    def kill(self) -> None:
        self.task.cancel()

    async def probe(self, question: HttpProbe) -> bool:  # noqa: ARG002 - a task needs no probe
        return not self.task.done()


class FlagParsers(Struct, frozen=True):
    """Read command lines that the operator rendered, as the program itself would."""

    options: Callable[[Sequence[str]], Any]  # returns the options of the process
    serve: Callable[[Sequence[str], int, Client, asyncio.Event], Awaitable[None]]  # runs a driver's server on a port


class PodRunner(Struct, frozen=True):
    """A `Runner` of the verbs that the pods of hub and clusters run, each as a task."""

    clock: Clock
    read: FlagParsers
    handle: RequestHandler  # of the control plane that the pods run on
    server_port: int = 0  # of the server that a driver brings
    agent_environment: Callable[[], Mapping[str, str]] = dict  # what the agent has beside the variables of its pod

    async def start(self, launch: Launch) -> RunningTask:
        """Start one; raises OSError for a command that it does not know."""
        commands: Mapping[str, CommandFunction] = {
            "operator": self._operator,
            "hub": self._hub,
            "clean-clusters": self._clean_clusters,
            "grpc-server": self._server,
            "agent": self._agent,
            "sample-addon": self._sample_addon,
            "managed-serviceaccount": self._managed_serviceaccount,
            "pull-secrets": self._pull_secrets,
        }
        command = commands.get(launch.arguments[0] if launch.arguments else "")
        if command is None:
            raise OSError(f"no such command: {launch.arguments[:1]}")
        stop = asyncio.Event()
        work = asyncio.create_task(self._run(command, launch, stop), name=f"{launch.pod}/{launch.container}")
        return RunningTask(work, stop)

    async def _run(self, command: CommandFunction, launch: Launch, stop: asyncio.Event) -> None:
        """Run one container with its ServiceAccount; what it logs is its own, a failure above all."""
        # Send what this task and those that it starts log to a file, too.
        launch.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _pod_log.set(launch.log)
        log: Any = structlog.get_logger("watchword.up").bind(pod=str(launch.pod))
        log.info("container started", command=launch.arguments[0])
        try:
            credentials = incluster_credential(environment=launch.environment)
            async with Client(InProcessTransport(self.handle, credentials=credentials)) as client:
                await command(launch, client, stop)
        except Exception:
            log.exception("container failed")
            raise

    async def _operator(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        namespace = parse_flags(launch.arguments)["namespace"]
        options = OperatorOptions(identity=launch.pod.name, namespace=namespace, timing=TIMING)
        await run_operator(client, options, clock=self.clock, random=SystemRandom(), stop=stop)

    async def _hub(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        """Be the hub that the ClusterManager describes; `up` has applied what it needs a moment ago."""
        read: HubOptions = self.read.options(launch.arguments)
        options = dataclasses.replace(read, identity=launch.pod.name, install=False, health=None, timing=TIMING)
        await install_agent_token_policy(client)  # its audiences are known to the server alone
        await run_hub(
            client, options, clock=self.clock, random=SystemRandom(), extensions=(hub_addon_controllers,), stop=stop
        )

    async def _server(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        await self.read.serve(launch.arguments, self.server_port, client, stop)

    async def _clean_clusters(self, launch: Launch, client: Client, _: asyncio.Event) -> None:
        retention = parse_flags(launch.arguments).get("retention")
        await ClusterCleanup(client, self.clock, parse_duration(retention) if retention else RETENTION).run()

    async def _agent(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        read: AgentOptions = self.read.options(launch.arguments)
        options = replace(read, identity=launch.pod.name, health=None, timing=TIMING)
        environment = {**launch.environment, **self.agent_environment()}
        runtime = AgentRuntime(clock=self.clock, random=SystemRandom(), environment=environment)
        await run_agent(client, options, runtime=runtime, stop=stop)

    async def _sample_addon(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        flags = parse_flags(launch.arguments)
        kubeconfig = Path(flags["hub-kubeconfig"])
        name = kubeconfig.with_name("cluster-name").read_text().strip()
        async with connect(kubeconfig, environment={}) as hub:
            await SampleAgent(hub, name, self.clock, client, flags["lease-namespace"]).run(SAMPLE_EVERY, stop)

    async def _managed_serviceaccount(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        flags = parse_flags(launch.arguments)
        kubeconfig = Path(flags["hub-kubeconfig"])
        name = kubeconfig.with_name("cluster-name").read_text().strip()
        endpoint = incluster_endpoint(launch.environment)
        options = AccountsAgentOptions(name, flags["namespace"], endpoint, launch.pod.name, clock=self.clock)
        async with connect(kubeconfig, environment={}) as hub:
            await run_accounts_agent(hub, client, options, stop=stop)

    async def _pull_secrets(self, launch: Launch, client: Client, stop: asyncio.Event) -> None:
        read: PullSecretOptions = self.read.options(launch.arguments)
        options = dataclasses.replace(read, identity=launch.pod.name, health=None, timing=TIMING)
        await run_pull_secrets(client, options, clock=self.clock, random=SystemRandom(), stop=stop)


def parse_flags(arguments: Sequence[str]) -> Mapping[str, str]:
    """Return the flags of a rendered command line, which are all of the form --name=value."""
    rows = [argument.removeprefix("--").partition("=") for argument in arguments[1:]]
    return {name: value for name, _, value in rows}
