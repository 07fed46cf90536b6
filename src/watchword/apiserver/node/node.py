"""The process node put together: the workload controllers and what runs their pods."""

import asyncio
import os
import shutil
from collections.abc import Sequence

from msgspec import Struct, field

from watchword.api.conditions import Condition, merge_condition
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import NODES, PODS
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.controllers.worker import Controller, create_if_absent, update_status
from watchword.apiserver.node.deployments import DeploymentController, ReplicaSetController
from watchword.apiserver.node.jobs import CronJobController, JobController
from watchword.apiserver.node.model import NodeSettings, Runner
from watchword.apiserver.node.pod_factory import NodeEvents, PodFactory
from watchword.apiserver.node.pods import PodController
from watchword.apiserver.node.volumes import Volumes
from watchword.apiserver.serving.model import Now, Registry

STOP_GRACE = 10.0
CLOCK_CHECK_SECONDS = 5.0
SMALLEST_CLOCK_JUMP = 2.0


class ProcessNode(Struct):
    """A service: from `start` to `stop`, workloads of this control plane run.

    Pods are not isolated: they run as the server's own user, so only verbs that keep to their pod's identity are run,
    and only with files that are mounted.
    """

    registry: Registry
    issuer: TokenIssuer
    audiences: Sequence[str]  # for which the control plane accepts tokens
    now: Now
    settings: NodeSettings
    runner: Runner
    _controllers: list[Controller[ObjectKey]] = field(default_factory=list)
    _pods: PodController | None = None
    _clock_watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        registry, now, settings = self.registry, self.now, self.settings
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()
        await ensure_node(registry, settings, now)
        events = NodeEvents(registry, now, f"{settings.name}-node")
        volumes = Volumes(registry, self.issuer, self.audiences, now, settings.folder)
        pod_factory = PodFactory(registry, events)
        self._pods = PodController(registry, settings, self.runner, volumes, events, now)
        self._controllers = [
            DeploymentController(registry, now),
            ReplicaSetController(registry, pod_factory),
            JobController(registry, pod_factory, now),
            CronJobController(registry, now),
            self._pods,
        ]
        for controller in self._controllers:
            await controller.start()
        self._clock_watch = asyncio.get_running_loop().create_task(self._watch_clock())

    async def stop(self) -> None:
        """End every process; the pods' status stays, because they will be started again."""
        if self._clock_watch is not None:
            self._clock_watch.cancel()
        while self._controllers:
            await self._controllers.pop().stop()
        pods, self._pods = self._pods, None
        if pods is None:
            return
        runs = list(pods.runs.values())
        await asyncio.gather(*(run.stop(STOP_GRACE) for run in runs))
        for run in runs:
            pods.volumes.close(run.uid)

    async def _watch_clock(self) -> None:
        """Let controllers decide again when the wall clock jumps ahead: timers of the loop do not follow it."""
        loop, now = asyncio.get_running_loop(), self.now
        while True:
            wall, monotonic = now(), loop.time()
            await asyncio.sleep(CLOCK_CHECK_SECONDS)
            if (now() - wall).total_seconds() - (loop.time() - monotonic) >= SMALLEST_CLOCK_JUMP:
                for controller in self._controllers:
                    controller.worker.recheck()

    def _sweep(self) -> None:
        """Remove the files of deleted pods of an earlier run, and every file with a secret."""
        living = {uid_of(pod) for pod in self.registry.list(PODS)}
        for found in self.settings.folder.iterdir():
            shutil.rmtree(found / "root" if found.name in living else found, ignore_errors=True)


async def ensure_node(registry: Registry, settings: NodeSettings, now: Now) -> None:
    key = ObjectKey.cluster(settings.name)
    labels = {"kubernetes.io/hostname": settings.name, "kubernetes.io/os": "linux"}
    await create_if_absent(registry, NODES, NODES.manifest(key, metadata={"labels": labels}))
    found = registry.get(NODES, key)
    if found is None:
        return
    ready = Condition.true("Ready", "NodeReady", "this node runs Watchword's own workloads as processes")
    old = found.get("status") or {}
    rows = merge_condition(old.get("conditions") or [], ready, now=now()) or old["conditions"]
    status = {**old, **capacity(), "conditions": rows, "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    await update_status(registry, NODES, found, status)


def capacity() -> Object:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    has = {"cpu": str(os.cpu_count() or 1), "memory": f"{pages * size // 1024}Ki", "pods": "110"}
    return {"capacity": has, "allocatable": dict(has)}
