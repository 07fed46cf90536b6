"""The hub's controllers as processes: one, or two that elect a leader."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.emulators.memory_aws import hub_catalog
from tests.helpers.fleet import AUTOMATIC, BOOTSTRAP_USER
from tests.simulation.cluster import AGENT_PILLARS
from tests.simulation.eks import HUB_ARN, SimulatedAws
from tests.simulation.grpc_hub import HOSTS, PatientGrpcDriver, SimulatedGrpc
from tests.simulation.history import History
from tests.simulation.network import Link, ProcessRun, SimulatedTransport
from tests.simulation.planes import HubPlane, StoreReader
from tests.simulation.process import SimulatedProcess
from tests.simulation.timing import PATIENCE, TIMING, follow_options

from watchword.api.resources import LEASES
from watchword.credentials.driver import Settings
from watchword.kube.client import Client
from watchword.processes.hub import HUB_LEASE, HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.registration.aws_irsa.options import HUB_ARN as ARN_FLAG
from watchword.registration.aws_irsa.options import PATTERNS
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.grpc.driver import HOSTS as HOSTS_FLAG
from watchword.registration.grpc.driver import USERS
from watchword.runtime.work_queue import Quarantine
from watchword.testing.virtual_time import VirtualClock


@dataclass
class HubReplicas:
    """Every replica of the hub's controllers."""

    plane: HubPlane
    clock: VirtualClock
    history: History
    random: Random
    replicas: int = 1
    aws: SimulatedAws | None = None
    grpc: SimulatedGrpc | None = None
    processes: list[SimulatedProcess] = field(init=False)
    links: list[Link] = field(init=False)

    def __post_init__(self) -> None:
        names = [f"hub-{number}" for number in range(self.replicas)]
        self.links = [Link(name, Random(self.random.random())) for name in names]
        self.processes = [
            SimulatedProcess(name, lambda run, link=link: self._run(run, link), self.history, AGENT_PILLARS)  # type: ignore[misc]
            for name, link in zip(names, self.links, strict=True)
        ]

    def start(self) -> None:
        """Start every replica."""
        for process in self.processes:
            process.start()

    async def stop(self) -> None:
        """End all of them."""
        for process in self.processes:
            await process.end()

    def leader(self, stored: StoreReader) -> SimulatedProcess:
        """Return the replica that leads, as the lease says; the first when none leads."""
        lease = stored.get(LEASES, HUB_LEASE) or {}
        holder = (lease.get("spec") or {}).get("holderIdentity")
        return next((process for process in self.processes if process.name == holder), self.processes[0])

    def _catalog(self) -> Catalog:
        known = CATALOG if self.aws is None else hub_catalog(self.aws)
        return Catalog(tuple(PatientGrpcDriver() if driver.name == "grpc" else driver for driver in known.drivers))

    def _settings(self) -> Settings:
        for_aws = {} if self.aws is None else {ARN_FLAG.flag: str(HUB_ARN), PATTERNS.flag: ".*"}
        for_grpc = {} if self.grpc is None else {HOSTS_FLAG.flag: ",".join(HOSTS), USERS.flag: BOOTSTRAP_USER}
        return {**AUTOMATIC, **for_aws, **for_grpc}

    async def _run(self, run: ProcessRun, link: Link) -> None:
        randomness = Random(self.random.random())
        options = HubOptions(
            identity=run.actor,
            drivers=("csr", *([] if self.aws is None else ["aws-irsa"]), *([] if self.grpc is None else ["grpc"])),
            catalog=self._catalog(),
            settings=self._settings(),
            auto_approval=True,
            install=False,
            elect=self.replicas > 1,
            timing=TIMING,
            follow=follow_options(randomness),
            quarantine=Quarantine(backoff=PATIENCE),
        )
        wire = SimulatedTransport(self.plane.administrator().transport, link, run, self.history)
        await run_hub(
            Client(wire, random=randomness),
            options,
            clock=self.clock,
            random=randomness,
            extensions=(hub_addon_controllers,),
        )
