"""Rolls deployments out, one replica set for each pod template, and keeps the pods of replica sets."""

import hashlib
from datetime import datetime

import orjson

from watchword.api.conditions import Condition, conditions_of, is_true, merge_condition
from watchword.api.json import copy_json
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of, owner_reference
from watchword.api.resources import DEPLOYMENTS, PODS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.apiserver.controllers.worker import delete_if_unchanged, update_status
from watchword.apiserver.kinds.catalog import REPLICA_SETS
from watchword.apiserver.node.pod_factory import PodFactory, WorkloadController, is_active
from watchword.apiserver.serving.model import Now
from watchword.apiserver.serving.write import SUFFIX_ALPHABET

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


class DeploymentController(WorkloadController):
    """Rolls a deployment out: a replica set for each pod template."""

    resource = DEPLOYMENTS
    controlled = REPLICA_SETS

    now: Now

    async def reconcile(self, found: Object) -> float | None:
        sets = sorted(self.controlled_by(found), key=revision_of)
        own = template_hash(found["spec"]["template"])
        new = next((each for each in sets if labels_of(each).get(HASH_LABEL) == own), None)
        old = [each for each in sets if each is not new]
        if not found["spec"].get("paused"):
            new = await self._newest(found, new, old, own)
            await self._scale(found, new, old)
        await self._forget(found, old)
        return await self._report(found, new, sets if new is None else [*old, new])

    async def _newest(self, found: Object, new: Object | None, old: list[Object], own: str) -> Object:
        last = max((revision_of(each) for each in old), default=0)
        if new is None:
            wanted = replica_set(found, own, str(last + 1))
            return await self.registry.create(REPLICA_SETS, wanted)
        if revision_of(new) <= last:  # an earlier template is used again
            new["metadata"].setdefault("annotations", {})[REVISION] = str(last + 1)
            return await self.registry.update(REPLICA_SETS, new)
        return new

    async def _scale(self, found: Object, new: Object, old: list[Object]) -> None:
        """Start every new pod at once; the old ones end when all of those are available."""
        replicas = int(found["spec"].get("replicas") or 0)
        await self._resize(new, replicas)
        if int((new.get("status") or {}).get("availableReplicas") or 0) >= replicas:
            for each in old:
                await self._resize(each, 0)

    async def _resize(self, found: Object, replicas: int) -> None:
        if found["spec"].get("replicas") != replicas:
            found["spec"]["replicas"] = replicas
            found.update(await self.registry.update(REPLICA_SETS, found))

    async def _forget(self, found: Object, old: list[Object]) -> None:
        limit = int(found["spec"].get("revisionHistoryLimit", 10))
        empty = [each for each in old if not each["spec"].get("replicas")]
        for each in empty[: max(0, len(empty) - limit)]:
            if not (each.get("status") or {}).get("replicas"):
                await delete_if_unchanged(self.registry, REPLICA_SETS, each)

    async def _report(self, found: Object, new: Object | None, sets: list[Object]) -> float | None:
        now, annotations, wait = self.now(), dict(annotations_of(found)), None
        status = rollout_status(found, new, sets)
        conditions = [decide_availability(found, status)]
        if new is not None:
            annotations[REVISION] = annotations_of(new).get(REVISION, "1")
            progress, wait = decide_progress(found, new["metadata"]["name"], status, now=now)
            conditions.append(progress)
        rows = conditions_of(found)
        for condition in conditions:
            merged = merge_condition(rows, condition, now=now)
            if merged is not None:
                dated = {"lastUpdateTime": rfc3339(now)}
                rows = [{**row, **dated} if row["type"] == condition.type else row for row in merged]
        status["conditions"] = rows
        if status != (found.get("status") or {}) or annotations != annotations_of(found):
            metadata = {**found["metadata"], "annotations": annotations}
            await self.registry.update(DEPLOYMENTS, {**found, "metadata": metadata, "status": status}, "status")
        return wait


def revision_of(found: Object) -> int:
    text = annotations_of(found).get(REVISION, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def template_hash(template: Object) -> str:
    """Return a short name for a pod template; equal templates have equal names."""
    content = orjson.dumps([template, 0], option=orjson.OPT_SORT_KEYS)  # as in the names of stored replica sets
    return "".join(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in hashlib.sha256(content).digest()[:10])


def replica_set(found: Object, own: str, revision: str) -> Object:
    template = copy_json(found["spec"]["template"])
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: own}
    selector = copy_json(found["spec"]["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: own}
    spec: Object = {"replicas": 0, "selector": selector, "template": template}
    key = ObjectKey(found["metadata"]["namespace"], f"{found['metadata']['name']}-{own}")
    fields = {
        "labels": dict(metadata["labels"]),
        "annotations": {REVISION: revision},
        "ownerReferences": [owner_reference(found, controller=True, block=True)],
    }
    return REPLICA_SETS.manifest(key, metadata=fields, spec=spec)


def rollout_status(found: Object, new: Object | None, sets: list[Object]) -> Object:
    """Return the numbers of a deployment; zeros are left out, as Kubernetes does."""

    def total(name: str, some: list[Object]) -> int:
        return sum(int((each.get("status") or {}).get(name) or 0) for each in some)

    available = total("availableReplicas", sets)
    replicas = int(found["spec"].get("replicas") or 0)
    numbers = {
        "observedGeneration": found["metadata"].get("generation"),
        "replicas": total("replicas", sets),
        "updatedReplicas": total("replicas", [new] if new is not None else []),
        "readyReplicas": total("readyReplicas", sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, replicas - available),
    }
    return {name: value for name, value in numbers.items() if value}


def decide_availability(found: Object, status: Object) -> Condition:
    replicas = int(found["spec"].get("replicas") or 0)
    if int(status.get("availableReplicas") or 0) >= replicas - replicas // 4:
        return Condition.true("Available", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    message = "Deployment does not have minimum availability."
    return Condition.false("Available", "MinimumReplicasUnavailable", message)


def decide_progress(found: Object, name: str, status: Object, *, now: datetime) -> tuple[Condition, float | None]:
    """Return how the rollout of a replica set is, and the seconds until it has taken too long."""
    spec, replicas = found["spec"], int(found["spec"].get("replicas") or 0)
    if all(status.get(number, 0) == replicas for number in ("replicas", "updatedReplicas", "availableReplicas")):
        message = f'ReplicaSet "{name}" has successfully progressed.'
        return Condition.true("Progressing", "NewReplicaSetAvailable", message), None
    progressing = Condition.true("Progressing", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    late = Condition.false("Progressing", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    before = next((row for row in conditions_of(found) if row["type"] == "Progressing"), {})
    if before.get("message") == late.message:
        return late, None
    if spec.get("paused"):
        return progressing, None
    text = before.get("lastUpdateTime") if before.get("message") == progressing.message else None
    since = parse_rfc3339(text or "") or now
    left = int(spec.get("progressDeadlineSeconds") or 600) - (now - since).total_seconds()
    return (progressing, left) if left > 0 else (late, None)


class ReplicaSetController(WorkloadController):
    """Keeps the number of pods of a replica set."""

    resource = REPLICA_SETS
    controlled = PODS

    pod_factory: PodFactory

    async def reconcile(self, found: Object) -> float | None:
        pods, wanted = self._pods(found), int(found["spec"].get("replicas") or 0)
        wait = await self.pod_factory.start(found, wanted - len(pods))
        for pod in choose_surplus(pods, len(pods) - wanted):
            await delete_if_unchanged(self.registry, PODS, pod)
        pods = self._pods(found)
        ready = sum(is_true(pod, "Ready") for pod in pods)
        numbers = {"fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        status = {name: number for name, number in numbers.items() if number} | {
            "replicas": len(pods),
            "observedGeneration": found["metadata"].get("generation"),
        }
        await update_status(self.registry, REPLICA_SETS, found, status)
        return wait

    def _pods(self, found: Object) -> list[Object]:
        return [pod for pod in self.controlled_by(found) if is_active(pod)]


def choose_surplus(pods: list[Object], number: int) -> list[Object]:
    """Return the pods that are missed least: those not bound, not ready, and the youngest."""
    young_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
    kept_last = sorted(young_first, key=lambda pod: (bool(pod["spec"].get("nodeName")), is_true(pod, "Ready")))
    return kept_last[: max(number, 0)]
