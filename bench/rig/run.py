"""One run: fresh clusters, the subject's processes, the trigger, the finish line, the result."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson

from bench.rig.audit import POLICY, AuditLog
from bench.rig.finish import FinishLine
from bench.rig.meter import Meter
from bench.rig.result import SUBJECT, Result, costs
from bench.rig.subject import Program, Subject
from watchword.api.resources import CLUSTER_ROLE_BINDINGS
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.testing.builders import a_cluster_role_binding
from watchword.testing.kube_apiserver_backend import Assets, KubeControlPlane
from watchword.testing.process import ChildProcess, free_port

T = TypeVar("T")
USER = "rig:subject:"
GROUP = "rig:subjects"
IN_FLIGHT = 8  # requests of a trigger at a time
QUIET_SECONDS = 3.0
PATIENCE = 400.0


@dataclass
class Cluster:
    """One real control plane with its audit log and our own client of it."""

    name: str
    plane: KubeControlPlane
    client: Client
    audit: AuditLog
    controllers: list[ChildProcess] = field(default_factory=list)

    def run_controllers(self, *names: str) -> None:
        """Run controllers of kube-controller-manager as part of the cluster."""
        self.controllers.append(self.plane.start_controllers(names))


class Run:
    """Everything that belongs to one run; `close` ends all of it."""

    def __init__(
        self, subject: Subject, workload: str, parameters: Mapping[str, int], assets: Assets, folder: Path, variant: str
    ) -> None:
        self.subject = subject
        self.workload = workload
        self.parameters = parameters
        self.users: tuple[str, ...] = (USER,)  # who counts as the subject in the audit logs
        self._assets = assets
        self._folder = folder
        self._variant = variant
        self.clusters: dict[str, Cluster] = {}
        self._processes: dict[str, ChildProcess] = {}

    async def cluster(self, name: str, *, audited: Mapping[str, object] = POLICY, data: Path | None = None) -> Cluster:
        """Start a cluster in which subjects are ordinary users with every right; `data` is of an earlier one."""
        folder = self._folder / name
        folder.mkdir()
        audit = AuditLog(folder / "audit.log")
        audit.path.touch()
        policy = folder / "audit-policy.json"
        policy.write_bytes(orjson.dumps(audited))
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit.path}", "--audit-log-maxsize=0")
        plane = KubeControlPlane(self._assets, folder, api_flags=flags, durable=True)
        if data is not None:
            shutil.copytree(data, plane.data)
        found = self.clusters[name] = Cluster(name, plane, connect(plane.kubeconfig), audit)
        await asyncio.to_thread(plane.start)
        binding = a_cluster_role_binding("rig-subjects", role="cluster-admin", groups=[GROUP])
        await found.client.apply(CLUSTER_ROLE_BINDINGS, binding)
        return found

    def launch_all(self, replica: str = "", meter: Meter | None = None, **values: object) -> None:
        """Start every program of the subject that runs once; each replica has a name of its own."""
        for program in self.subject.programs(self.workload, per_agent=False):
            self._launch_measured(program, f"{program.name}{replica}", meter, values)

    def end_all(self, replica: str = "", *, kill: bool = False) -> None:
        """End the programs of one replica, gracefully or as `kill -9` does."""
        for program in self.subject.programs(self.workload, per_agent=False):
            process = self._processes.pop(f"{program.name}{replica}")
            process.kill() if kill else process.stop()

    def launch_agent(self, number: int, meter: Meter | None = None, **values: object) -> None:
        """Start the programs of one agent."""
        for program in self.subject.programs(self.workload, per_agent=True):
            self._launch_measured(program, f"{program.name}-{number}", meter, values)

    async def quiet(self, seconds: float = QUIET_SECONDS, limit: float = 120.0) -> None:
        """Wait until the subject has made no request for some seconds; renewing leases does not count."""
        began = time.monotonic()
        while time.monotonic() - began < limit:
            self._require_alive()
            for cluster in self.clusters.values():
                cluster.audit.read()
            last = [cluster.audit.last_request(self.users) for cluster in self.clusters.values()]
            heard = [at for at in last if at is not None]
            if heard and time.monotonic() - max(began, *heard) > seconds:
                return
            await asyncio.sleep(0.25)

    def meter(self) -> Meter:
        """Return a meter of the subject, the API servers and etcd."""
        pids = {f"{SUBJECT}{label}": process.pid for label, process in self._processes.items()}
        for cluster in self.clusters.values():
            parts = (*cluster.plane.processes, *cluster.controllers)
            pids.update({f"{cluster.name}:{part.name}": part.pid for part in parts})
        return Meter(pids, {name: cluster.audit for name, cluster in self.clusters.items()}, self.users)

    async def measured(self, objects: int, trigger: Iterable[Awaitable[object]], finish: FinishLine) -> Result:
        """Send the trigger, wait for the finish and for quiet, and return what it cost."""
        async with self.meter() as meter:
            began = time.monotonic()
            await bounded(trigger)
            triggered = time.monotonic() - began
            wall = await finish.crossed(PATIENCE) - began
            return await self.settled(meter, objects, wall, triggered)

    async def settled(self, meter: Meter, objects: int, wall: float, triggered: float) -> Result:
        """Wait until the echo of the work has died away, and return what it all cost."""
        done = meter.mark()
        await self.quiet(limit=self.parameters.get("settle", 120))
        return Result(
            self.workload,
            self.subject.name,
            self._variant,
            self.parameters,
            objects,
            wall,
            triggered,
            **costs(done, meter.mark()),
        )

    def log_tail(self) -> str:
        """Return the ends of the subject's logs, for a run that failed."""
        return "\n".join(f"--- {label}\n{process.log_tail()}" for label, process in self._processes.items())

    async def close(self) -> None:
        """End the subject, then the clusters."""
        for process in self._processes.values():
            process.stop()
        for cluster in self.clusters.values():
            await cluster.client.close()
            for controllers in cluster.controllers:
                controllers.stop()
            cluster.plane.stop()

    def _launch_measured(self, program: Program, label: str, meter: Meter | None, values: Mapping[str, object]) -> None:
        process = self._launch(program, label, values)
        if meter is not None:
            meter.add(f"{SUBJECT}{label}", process.pid)

    def _launch(self, program: Program, label: str, values: Mapping[str, object]) -> ChildProcess:
        folder = self._folder / "subject" / label
        folder.mkdir(parents=True)
        known: dict[str, object] = {
            "python": sys.executable,
            "bin": self._assets.folder,
            "peers": os.environ.get("PEERS_BIN", "."),
            "dir": folder,
            "port": free_port(),
        }
        for cluster in self.clusters.values():
            known[cluster.name] = cluster.plane.credentials.kubeconfig(cluster.plane.server, USER + label, [GROUP])
        known.update(values)
        for path, text in program.files.items():
            (folder / path).write_text(_filled(text, known), encoding="utf-8")
        environment = {name: _filled(value, known) for name, value in program.environment.items()}
        command = program.command(self._variant, known)
        self._processes[label] = ChildProcess(command, folder / "log", environment={"POD_NAME": label, **environment})
        return self._processes[label]

    def _require_alive(self) -> None:
        for label, process in self._processes.items():
            if not process.is_running():
                raise SystemExit(f"{label} ended: {process.log_tail()}")


async def bounded(jobs: Iterable[Awaitable[T]], limit: int = IN_FLIGHT) -> list[T]:
    """Await all, a few at a time; the first error ends it."""
    gate = asyncio.Semaphore(limit)

    async def one(job: Awaitable[T]) -> T:
        async with gate:
            return await job

    return await asyncio.gather(*(one(job) for job in jobs))


def _filled(text: str, values: Mapping[str, object]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text
