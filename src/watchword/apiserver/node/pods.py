"""Runs the pods that are bound to this node, and reports how they are."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from watchword.api.conditions import Condition, merge_condition
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.resources import CONFIG_MAPS, PODS, SECRETS
from watchword.apiserver.controllers.worker import Watches, Worker
from watchword.apiserver.node.container_run import ContainerPlan, ContainerRun
from watchword.apiserver.node.containers import build_launch, probe_of, validate_runnable_pod
from watchword.apiserver.node.model import NodeSettings, Runner
from watchword.apiserver.node.pod_factory import FINISHED, RETRY_SECONDS, NodeEvents
from watchword.apiserver.node.pod_status import pod_status, restore_container_state
from watchword.apiserver.node.volumes import MissingVolumeSource, Volumes, sources_of
from watchword.apiserver.serving.model import ApiError, Now, Registry

NOT_SERVED = "ImageNotServed"


class PodRun(Struct):
    """The containers of one pod."""

    uid: str
    containers: dict[str, ContainerRun]
    ending: asyncio.Task[None] | None = None

    async def stop(self, grace: float) -> None:
        await asyncio.gather(*(container.stop(grace) for container in self.containers.values()))


@dataclass
class PodController:
    """Triggered by pods, by what they mount, and by their own processes."""

    registry: Registry
    settings: NodeSettings
    runner: Runner
    volumes: Volumes
    events: NodeEvents
    now: Now
    entropy: Callable[[int], bytes]
    environment: Mapping[str, str]
    runs: dict[ObjectKey, PodRun] = field(default_factory=dict)
    worker: Worker[ObjectKey] = field(init=False)

    def __post_init__(self) -> None:
        self.worker = Worker("pods", self.sync, parallel=32)

    def watches(self) -> Watches:
        return {
            PODS: self._pod_changed,
            SECRETS: lambda _change, new: self._source_changed(SECRETS, new),
            CONFIG_MAPS: lambda _change, new: self._source_changed(CONFIG_MAPS, new),
        }

    def _pod_changed(self, change: str, new: Object) -> None:
        if change == "DELETED":
            self.events.forget(uid_of(new))
        self.worker.enqueue(ObjectKey.of(new))

    def _source_changed(self, resource: Resource, obj: Object) -> None:
        key = ObjectKey.of(obj)
        for pod_key in [each for each in self.runs if each.namespace == key.namespace]:
            pod = self.registry.get(PODS, pod_key)
            if pod is not None and key.name in sources_of(pod, resource):
                self.worker.enqueue(pod_key)

    async def sync(self, key: ObjectKey) -> float | None:
        pod = self.registry.get(PODS, key)
        run = self.runs.get(key)
        if run is not None and (pod is None or uid_of(pod) != run.uid):
            await self._drop(key, run)
            run = None
        if pod is None or not self._is_ours(pod):
            return None
        if is_deleting(pod):
            return await self._end(pod, run)
        if (pod.get("status") or {}).get("phase") in FINISHED:
            self.volumes.close(uid_of(pod))
            return None
        if not pod["spec"].get("nodeName"):
            await self._bind(pod)
            return None
        return await self._run(pod, run)

    def _is_ours(self, pod: Object) -> bool:
        return (pod["spec"].get("nodeName") or self.settings.name) == self.settings.name

    async def _bind(self, pod: Object) -> None:
        objection = validate_runnable_pod(pod, self.settings)
        status = pod.setdefault("status", {})
        rows: list[Object] = status.get("conditions") or []
        if objection is None:
            pod["spec"]["nodeName"] = self.settings.name
            scheduled = Condition.true("PodScheduled", "")
            status["conditions"] = merge_condition(rows, scheduled, now=self.now()) or rows
            status["podIP"] = address = self._address()
            status["podIPs"] = [{"ip": address}]
            await self.registry.update(PODS, pod, "binding")
            return
        waiting = Condition.false("PodScheduled", "Unschedulable", objection)
        changed = merge_condition(rows, waiting, now=self.now())
        if changed is not None:
            status["conditions"] = changed
            await self.registry.update(PODS, pod, "status")
        await self.events.warn(pod, NOT_SERVED, objection)

    def _address(self) -> str:
        if not sys.platform.startswith("linux"):
            return "127.0.0.1"  # elsewhere, other loopback addresses are not there by themselves
        taken = {(pod.get("status") or {}).get("podIP") for pod in self.registry.list(PODS)}
        while True:
            second, third, fourth = self.entropy(3)
            address = f"127.{64 + second % 64}.{third}.{1 + fourth % 254}"
            if address not in taken:
                return address

    async def _run(self, pod: Object, run: PodRun | None) -> float | None:
        objection = validate_runnable_pod(pod, self.settings) if run is None else None
        if objection is not None:  # bound by another client
            await self.events.warn(pod, NOT_SERVED, objection)
            return None
        run = run or self._prepared(pod)
        try:
            delay = self.volumes.write_files(pod)
        except MissingVolumeSource as missing:
            await self.events.warn(pod, "FailedMount", str(missing))
            delay = RETRY_SECONDS
        else:
            for container in run.containers.values():
                container.start()
        await self._report(pod, run)
        return delay

    def _prepared(self, pod: Object) -> PodRun:
        key = ObjectKey.of(pod)
        containers = {
            container["name"]: ContainerRun(
                self._plan(pod, container),
                self.runner,
                self.now,
                lambda: self.worker.enqueue(key),
                restore_container_state(pod, container["name"], now=self.now()),
            )
            for container in pod["spec"]["containers"]
        }
        run = self.runs[key] = PodRun(uid_of(pod), containers)
        return run

    def _plan(self, pod: Object, container: Object) -> ContainerPlan:
        return ContainerPlan(
            build_launch(pod, container, self.settings, self.environment),
            str(pod["spec"].get("restartPolicy") or "Always"),
            probe_of(pod, container, "readinessProbe"),
            probe_of(pod, container, "livenessProbe"),
        )

    async def _report(self, pod: Object, run: PodRun) -> None:
        states = {name: container.state for name, container in run.containers.items()}
        status = pod_status(pod, states, now=self.now())
        if status != pod.get("status"):
            await self.registry.update(PODS, {**pod, "status": status}, "status")

    async def _end(self, pod: Object, run: PodRun | None) -> float | None:
        key = ObjectKey.of(pod)
        if run is not None and run.ending is None:
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            run.ending = asyncio.get_running_loop().create_task(run.stop(grace))
            run.ending.add_done_callback(lambda _: self.worker.enqueue(key))
        if run is not None and run.ending is not None and not run.ending.done():
            return None
        self.runs.pop(key, None)
        self.volumes.forget(uid_of(pod))
        try:
            await self.registry.delete(PODS, key, uid=uid_of(pod), grace_seconds=0)
        except ApiError as refusal:
            if refusal.code not in {404, 409}:
                raise
        return None

    async def _drop(self, key: ObjectKey, run: PodRun) -> None:
        """End what a pod left behind that was deleted at once."""
        await run.stop(0)
        self.runs.pop(key, None)
        self.volumes.forget(run.uid)
