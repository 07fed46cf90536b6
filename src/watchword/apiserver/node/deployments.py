"""Rolls deployments out, one replica set for each pod template, and keeps the pods of replica sets."""

import hashlib

import orjson

from watchword.api.conditions import Condition, find_condition, is_true, merge_condition
from watchword.api.json import copy_json
from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, labels_of, owner_reference
from watchword.api.resources import DEPLOYMENTS, PODS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.apiserver.controllers.worker import Watches, Worker, delete_if_unchanged
from watchword.apiserver.kinds.catalog import REPLICA_SETS
from watchword.apiserver.node.pod_factory import (
    RETRY_SECONDS,
    NodeEvents,
    PodFactory,
    controlled_by,
    enqueue_owner,
    is_active,
)
from watchword.apiserver.serving.model import ApiError, Now, Registry
from watchword.apiserver.serving.write import SUFFIX_ALPHABET

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


class DeploymentController:
    """Triggered by deployments and their replica sets."""

    def __init__(self, registry: Registry, now: Now) -> None:
        self.registry = registry
        self.now = now
        self.worker: Worker[ObjectKey] = Worker("deployments", self.sync)

    def watches(self) -> Watches:
        return {
            DEPLOYMENTS: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)),
            REPLICA_SETS: lambda _change, new: enqueue_owner(self.worker, new, "Deployment"),
        }

    async def sync(self, key: ObjectKey) -> float | None:
        found = self.registry.get(DEPLOYMENTS, key)
        if found is None or is_deleting(found):
            return None
        sets = sorted(controlled_by(self.registry, REPLICA_SETS, found), key=revision_of)
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
        old, now = found.get("status") or {}, self.now()
        status = rollout_status(found, new, sets)
        rows: list[Object] = old.get("conditions") or []
        for condition in rollout_conditions(found, new, status):
            rows = merge_condition(rows, condition, now=now) or rows
        rows = _with_update_times(rows, old.get("conditions") or [], rfc3339(now))
        late, wait = self._decide_progress(found, rows, new) if new is not None else (None, None)
        if late is not None:
            rows = merge_condition(rows, late, now=now) or rows
        status["conditions"] = rows
        annotations = dict(annotations_of(found))
        if new is not None:
            annotations[REVISION] = annotations_of(new).get(REVISION, "1")
        if status != old or annotations != annotations_of(found):
            metadata = {**found["metadata"], "annotations": annotations}
            await self.registry.update(DEPLOYMENTS, {**found, "metadata": metadata, "status": status}, "status")
        return wait

    def _decide_progress(self, found: Object, rows: list[Object], new: Object) -> tuple[Condition | None, float | None]:
        """Return when a rollout has taken too long, or the seconds until that is known."""
        progressing = next((row for row in rows if row["type"] == "Progressing"), None)
        if progressing is None or progressing.get("reason") != "ReplicaSetUpdated" or found["spec"].get("paused"):
            return None, None
        now, deadline = self.now(), int(found["spec"].get("progressDeadlineSeconds") or 600)
        since = parse_rfc3339(progressing.get("lastUpdateTime") or "") or now
        left = deadline - (now - since).total_seconds()
        if left > 0:
            return None, left
        message = f'ReplicaSet "{new["metadata"]["name"]}" has timed out progressing.'
        return Condition.false("Progressing", "ProgressDeadlineExceeded", message), None


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


def rollout_conditions(found: Object, new: Object | None, status: Object) -> list[Condition]:
    replicas = int(found["spec"].get("replicas") or 0)
    available = int(status.get("availableReplicas") or 0)
    if available >= replicas - replicas // 4:
        first = Condition.true("Available", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        first = Condition.false(
            "Available", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )
    if new is None:
        return [first]
    name = new["metadata"]["name"]
    done = status.get("updatedReplicas", 0) == status.get("replicas", 0) == replicas == available
    if done:
        return [
            first,
            Condition.true(
                "Progressing", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
            ),
        ]
    before = find_condition(found, "Progressing")
    if before is not None and before.reason == "ProgressDeadlineExceeded" and f'"{name}"' in before.message:
        return [first]
    return [first, Condition.true("Progressing", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')]


def _with_update_times(rows: list[Object], before: list[Object], now: str) -> list[Object]:
    known = {row["type"]: row for row in before}
    dated = []
    for row in rows:
        old = known.get(row["type"], {})
        same = all(old.get(name) == row.get(name) for name in ("status", "reason", "message"))
        dated.append({**row, "lastUpdateTime": old["lastUpdateTime"] if same and old.get("lastUpdateTime") else now})
    return dated


class ReplicaSetController:
    """Triggered by replica sets and their pods."""

    def __init__(self, registry: Registry, pod_factory: PodFactory, events: NodeEvents) -> None:
        self.registry = registry
        self.pod_factory = pod_factory
        self.events = events
        self.worker: Worker[ObjectKey] = Worker("replica sets", self.sync)

    def watches(self) -> Watches:
        return {
            REPLICA_SETS: lambda _change, new: self.worker.enqueue(ObjectKey.of(new)),
            PODS: lambda _change, new: enqueue_owner(self.worker, new, "ReplicaSet"),
        }

    async def sync(self, key: ObjectKey) -> float | None:
        found = self.registry.get(REPLICA_SETS, key)
        if found is None or is_deleting(found):
            return None
        wait = None
        try:
            await self._scale(found, self._pods(found))
        except ApiError as refusal:
            await self.events.warn(found, "FailedCreate", f"Error creating: {refusal.message}")
            wait = RETRY_SECONDS
        pods = self._pods(found)
        ready = sum(is_true(pod, "Ready") for pod in pods)
        numbers = {"fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        status = {name: number for name, number in numbers.items() if number} | {
            "replicas": len(pods),
            "observedGeneration": found["metadata"].get("generation"),
        }
        if status != found.get("status"):
            await self.registry.update(REPLICA_SETS, {**found, "status": status}, "status")
        return wait

    def _pods(self, found: Object) -> list[Object]:
        return [pod for pod in controlled_by(self.registry, PODS, found) if is_active(pod)]

    async def _scale(self, found: Object, pods: list[Object]) -> None:
        wanted = int(found["spec"].get("replicas") or 0)
        for _ in range(wanted - len(pods)):
            await self.pod_factory.make(found, found["spec"]["template"])
        for pod in choose_surplus(pods, len(pods) - wanted):
            await delete_if_unchanged(self.registry, PODS, pod)


def choose_surplus(pods: list[Object], number: int) -> list[Object]:
    """Return the pods that are missed least: those not bound, not ready, and the youngest."""
    if number <= 0:
        return []

    def worth(pod: Object) -> tuple[bool, bool]:
        return bool(pod["spec"].get("nodeName")), is_true(pod, "Ready")

    young_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
    return sorted(young_first, key=worth)[:number]
