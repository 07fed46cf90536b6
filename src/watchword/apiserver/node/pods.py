"""Runs the pods that are bound to this node, and reports how they are."""

import asyncio
import os
import sys

from msgspec import Struct, field

from watchword.api.conditions import Condition, merge_condition
from watchword.api.meta import Object, ObjectKey, is_deleting, uid_of
from watchword.api.resources import CONFIG_MAPS, PODS, SECRETS
from watchword.apiserver.controllers.worker import Controller, Watches, delete_if_unchanged, update_status
from watchword.apiserver.node.container_run import ContainerRun
from watchword.apiserver.node.containers import build_launch, probe_of, validate_runnable_pod
from watchword.apiserver.node.model import NodeSettings, Runner
from watchword.apiserver.node.pod_factory import FINISHED, RETRY_SECONDS, NodeEvents
from watchword.apiserver.node.pod_status import pod_status, restore_container_state
from watchword.apiserver.node.volumes import MissingVolumeSource, Volumes
from watchword.apiserver.serving.model import Now

NOT_SERVED = "ImageNotServed"


class PodRun(Struct):
    """The containers of one pod."""

    uid: str
    containers: dict[str, ContainerRun]
    ending: asyncio.Task[None] | None = None

    async def stop(self, grace: float) -> None:
        await asyncio.gather(*(container.stop(grace) for container in self.containers.values()))


class PodController(Controller[ObjectKey]):
    """Triggered by pods, by every Secret and ConfigMap of their namespace, and by their own processes."""

    settings: NodeSettings
    runner: Runner
    volumes: Volumes
    events: NodeEvents
    now: Now
    runs: dict[ObjectKey, PodRun] = field(default_factory=dict)

    def watches(self) -> Watches:
        return {
            PODS: lambda _, pod: self.worker.enqueue(ObjectKey.of(pod)),
            SECRETS: self._source_changed,
            CONFIG_MAPS: self._source_changed,
        }

    def _source_changed(self, _change: str, obj: Object) -> None:
        for key in self.runs:
            if key.namespace == obj["metadata"]["namespace"]:
                self.worker.enqueue(key)

    async def sync(self, key: ObjectKey) -> float | None:
        pod = self.registry.get(PODS, key)
        run = self.runs.get(key)
        if run is not None and (pod is None or uid_of(pod) != run.uid):
            await run.stop(0)
            del self.runs[key]
            self.volumes.forget(run.uid)
            run = None
        if pod is None or pod["spec"].get("nodeName") not in (None, "", self.settings.name):
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

    async def _bind(self, pod: Object) -> None:
        objection = validate_runnable_pod(pod, self.settings)
        condition = Condition.true("PodScheduled", "")
        if objection is not None:
            condition = Condition.false("PodScheduled", "Unschedulable", objection)
        status = pod.setdefault("status", {})
        changed = merge_condition(status.get("conditions") or [], condition, now=self.now())
        if changed is not None:
            status["conditions"] = changed
        if objection is None:
            pod["spec"]["nodeName"] = self.settings.name
            status["podIP"] = address = self._address()
            status["podIPs"] = [{"ip": address}]
            await self.registry.update(PODS, pod, "binding")
            return
        if changed is not None:
            await self.registry.update(PODS, pod, "status")
        await self.events.warn(pod, NOT_SERVED, objection)

    def _address(self) -> str:
        if not sys.platform.startswith("linux"):
            return "127.0.0.1"  # elsewhere, other loopback addresses are not there by themselves
        taken = {(pod.get("status") or {}).get("podIP") for pod in self.registry.list(PODS)}
        while True:
            second, third, fourth = os.urandom(3)
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
        states = {name: container.state for name, container in run.containers.items()}
        await update_status(self.registry, PODS, pod, pod_status(pod, states, now=self.now()))
        return delay

    def _prepared(self, pod: Object) -> PodRun:
        key = ObjectKey.of(pod)
        containers = {
            container["name"]: ContainerRun(
                build_launch(pod, container, self.settings, os.environ),
                str(pod["spec"].get("restartPolicy") or "Always"),
                probe_of(pod, container, "readinessProbe"),
                probe_of(pod, container, "livenessProbe"),
                self.runner,
                self.now,
                lambda: self.worker.enqueue(key),
                restore_container_state(pod, container["name"], now=self.now()),
            )
            for container in pod["spec"]["containers"]
        }
        run = self.runs[key] = PodRun(uid_of(pod), containers)
        return run

    async def _end(self, pod: Object, run: PodRun | None) -> float | None:
        key = ObjectKey.of(pod)
        if run is not None:
            if run.ending is None:
                grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
                run.ending = asyncio.get_running_loop().create_task(run.stop(grace))
                run.ending.add_done_callback(lambda _: self.worker.enqueue(key))
            if not run.ending.done():
                return None
        self.runs.pop(key, None)
        self.volumes.forget(uid_of(pod))
        await delete_if_unchanged(self.registry, PODS, pod, grace_seconds=0)
        return None
