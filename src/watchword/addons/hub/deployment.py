"""Installs an add-on on a cluster through works, runs its hooks before removal, and reports its health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from watchword.addons.definition import BY_FEEDBACK, AddonDefinition, AddonInstance
from watchword.addons.driver import AddonState, StepResult
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, annotations_of, is_owned_by, labels_of, owner_reference, rows_at
from watchword.api.names import NAME_CONFLICT, Annotation, ConditionType, Finalizer, Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS
from watchword.kube.client import Client
from watchword.runtime.diff import Comparison, choose_changes
from watchword.runtime.ensure import Ensurer, add_finalizer, remove_finalizer
from watchword.runtime.errors import NameConflict
from watchword.runtime.reconcile import Reader, Trigger
from watchword.runtime.status import StatusChange

LARGEST_WORK = 500 * 1024  # bytes of manifests; the rest of an object's megabyte is for its status
WATCHED = {
    ("apps", "Deployment"): "deployments",
    ("apps", "DaemonSet"): "daemonsets",
    ("batch", "Job"): "jobs",
    ("", "Pod"): "pods",
}
"""Kinds whose status the agent reports back, and where they are served."""

INDEX = "addon-works"


class DeploymentStep(Struct, frozen=True):
    """Brings the works in line with the add-on's manifests; when it is deleted, runs its hooks first."""

    reader: Reader
    client: Client
    ensurer: Ensurer

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        return (Trigger(MANIFEST_WORKS, addon_from_labels),)

    async def run(self, state: AddonState) -> StepResult:
        definition = state.definition
        if definition is None or state.cluster is None:
            return StepResult()
        instance = AddonInstance(state.addon, state.cluster)
        manifests = definition.manifests(instance)
        if instance.addon.deleting:
            return StepResult(StatusChange(conditions=await self._run_hooks(instance, manifests)))
        if manifests or definition.objection:
            return StepResult(StatusChange(conditions=await self._install(instance, manifests, definition)))
        return StepResult()

    async def remove(self, key: ObjectKey) -> None:
        """Remove nothing: the works belong to the add-on and go with it."""

    async def _install(
        self, instance: AddonInstance, manifests: Sequence[Object], definition: AddonDefinition
    ) -> tuple[Condition, ...]:
        if definition.objection:
            return (definition.objection,)
        # The finalizer is put on before anything is installed, and off when there is no hook any more.
        change = add_finalizer if any(map(is_hook, manifests)) else remove_finalizer
        await change(self.client, MANAGED_CLUSTER_ADDONS, instance.addon.object, Finalizer.ADDON_PRE_DELETE)
        parts = split_manifests([obj for obj in manifests if not is_hook(obj)])
        names = [deploy_name(instance.addon.name, number) for number in range(len(parts))]
        try:
            made = [
                await self._write(instance, work_manifest(instance, name, part, definition.manifest_configs))
                for name, part in zip(names, parts, strict=True)
            ]
        except NameConflict as conflict:
            return (Condition.false(ConditionType.MANIFEST_APPLIED, NAME_CONFLICT, str(conflict)),)
        for work in self.reader.by_index(MANIFEST_WORKS, INDEX, str(instance.addon.key)):
            if work["metadata"]["name"] not in names:
                await self.ensurer.remove(MANIFEST_WORKS, ObjectKey.of(work), ours=is_made_for(instance))
        if definition.health == BY_FEEDBACK:
            return decide_applied_condition(made), decide_available_condition(made)
        return (decide_applied_condition(made),)

    async def _write(self, instance: AddonInstance, wanted: Object) -> Object:
        present = self.reader.get(MANIFEST_WORKS, ObjectKey.of(wanted))
        ours = is_made_for(instance)
        if present is not None and ours(present):
            wanted = keep_install_namespace(wanted, present, instance.addon.namespace_on_cluster())
            if is_current(present, wanted):
                return present
        return await self.ensurer.ensure(MANIFEST_WORKS, wanted, ours=ours)

    async def _run_hooks(self, instance: AddonInstance, manifests: Sequence[Object]) -> tuple[Condition, ...]:
        """Run the hooks, then remove the finalizer."""
        if Finalizer.ADDON_PRE_DELETE not in instance.addon.finalizers:
            return ()
        hooks = [obj for obj in manifests if is_hook(obj)]
        if hooks:
            name = f"addon-{instance.addon.name}-pre-delete"
            work = await self._write(instance, work_manifest(instance, name, hooks))
            if not is_completed(work, hooks):
                message = "waiting for the add-on's hooks to complete"
                return (Condition.false(ConditionType.HOOK_COMPLETED, "HookManifestIsNotCompleted", message),)
        await remove_finalizer(self.client, MANAGED_CLUSTER_ADDONS, instance.addon.object, Finalizer.ADDON_PRE_DELETE)
        return ()


def is_hook(manifest: Object) -> bool:
    """Whether a manifest is run before the add-on is removed, and not before."""
    return Annotation.ADDON_PRE_DELETE in {**annotations_of(manifest), **labels_of(manifest)}


def split_manifests(manifests: Sequence[Object], *, limit: int = LARGEST_WORK) -> list[list[Object]]:
    """Return the manifests in as few works as fit; one that is larger than the limit has a work of its own."""
    parts: list[list[Object]] = []
    size = limit + 1
    for manifest in manifests:
        weight = len(orjson.dumps(manifest))
        if size + weight > limit:
            parts.append([])
            size = 0
        parts[-1].append(manifest)
        size += weight
    return parts


def deploy_name(addon: str, number: int) -> str:
    return f"addon-{addon}-deploy-{number}"


def work_manifest(
    instance: AddonInstance, name: str, manifests: Sequence[Object], configs: Iterable[Object] = ()
) -> Object:
    spec: Object = {"workload": {"manifests": list(manifests)}}
    configs = merge_configs([row for manifest in manifests for row in _feedback(manifest)], configs)
    if configs:
        spec["manifestConfigs"] = configs
    return MANIFEST_WORKS.manifest(
        ObjectKey(instance.cluster.name, name),
        metadata={
            "labels": {Label.ADDON_NAME: instance.addon.name},
            "ownerReferences": [owner_reference(instance.addon.object)],
        },
        spec=spec,
    )


def keep_install_namespace(wanted: Object, present: Object, namespace: str) -> Object:
    """Return a work that keeps the add-on's namespace when the present one brings it, and never deletes it.

    Works of Open Cluster Management's managers bring it. A work agent would delete what a work brings no more, and
    with a namespace everything in it.
    """
    brought, bringing = (
        [obj for obj in rows_at(work, "spec", "workload", "manifests") if _is_namespace(obj, namespace)]
        for work in (present, wanted)
    )
    if not brought or bringing:
        return wanted
    rule = {"group": "", "resource": "namespaces", "name": namespace}
    option = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}}
    workload = {"manifests": [*wanted["spec"]["workload"]["manifests"], *brought]}
    return {**wanted, "spec": {**wanted["spec"], "workload": workload, "deleteOption": option}}


def _is_namespace(manifest: Object, name: str) -> bool:
    return (manifest.get("kind"), _group(manifest)) == ("Namespace", "") and ObjectKey.of(manifest).name == name


def merge_configs(feedback: Sequence[Object], configs: Iterable[Object]) -> list[Object]:
    """Return the manifestConfigs of a work: the hub's feedback rules and the author's settings, merged by object."""
    merged = list(feedback)
    for config in configs:
        same = [row for row in merged if row["resourceIdentifier"] == config.get("resourceIdentifier")]
        rules = [rule for row in same for rule in row["feedbackRules"]]
        more = [rule for rule in config.get("feedbackRules") or () if rule not in rules]
        merged = [row for row in merged if row not in same]
        merged.append({**config, "feedbackRules": [*rules, *more]} if rules or more else config)
    return merged


def _feedback(manifest: Object) -> list[Object]:
    group, key = _group(manifest), ObjectKey.of(manifest)
    resource = WATCHED.get((group, str(manifest.get("kind"))))
    identifier = {"group": group, "resource": resource, "namespace": key.namespace, "name": key.name}
    return [{"resourceIdentifier": identifier, "feedbackRules": [{"type": "WellKnownStatus"}]}] if resource else []


def _group(manifest: Object) -> str:
    return str(manifest.get("apiVersion") or "").rpartition("/")[0]


def is_made_for(instance: AddonInstance) -> Callable[[Object], bool]:
    name, uid = instance.addon.name, instance.addon.uid
    return lambda obj: labels_of(obj).get(Label.ADDON_NAME) == name and is_owned_by(obj, uid)


def addon_from_labels(work: Object) -> list[ObjectKey]:
    name = labels_of(work).get(Label.ADDON_NAME)
    return [ObjectKey(work["metadata"]["namespace"], name)] if name else []


def is_current(present: Object, wanted: Object) -> bool:
    """Whether a work says what is wanted: its manifests exactly, or a removed field would stay on the clusters."""
    manifests, declared = (present.get("spec") or {}).get("workload"), wanted["spec"]["workload"]
    same = manifests == declared or _without_empty(manifests) == _without_empty(declared)
    rest = {**wanted, "spec": {name: value for name, value in wanted["spec"].items() if name != "workload"}}
    return same and choose_changes(present, rest, Comparison.CONTAINS) is None


def _without_empty(value: Any) -> Any:
    """Leave out empty maps and nulls, which Open Cluster Management adds to manifests and which say nothing."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    rows = {name: _without_empty(item) for name, item in value.items()}
    return {name: item for name, item in rows.items() if item is not None and item != {}}


def decide_applied_condition(works: Sequence[Object]) -> Condition:
    type_ = ConditionType.MANIFEST_APPLIED
    said = [find_condition(work, ConditionType.WORK_APPLIED) for work in works]
    failed = [word for word in said if word is not None and word.status == "False"]
    if failed:
        return Condition.false(type_, "AddonManifestAppliedFailed", failed[0].message)
    if any(word is None or word.status != "True" for word in said):
        return Condition.false(type_, "AddonManifestNotApplied", "waiting for the cluster's agent to apply the works")
    return Condition.true(type_, "AddonManifestApplied", "the add-on's manifests are applied")


def decide_available_condition(works: Sequence[Object]) -> Condition:
    type_ = ConditionType.ADDON_AVAILABLE
    if not works:
        return Condition.unknown(type_, "WorkNotFound", "the add-on's works do not exist yet")
    if not all(is_true(work, ConditionType.WORK_APPLIED) for work in works):
        return Condition.unknown(type_, "WorkNotApplied", "the add-on's works are not applied yet")
    waiting = [name for work in works for name in _unready(work)]
    if waiting:
        return Condition.false(type_, "ProbeUnavailable", f"no replica is ready of {', '.join(waiting)}")
    if not all(is_true(work, ConditionType.WORK_AVAILABLE) for work in works):
        return Condition.false(type_, "WorkUnavailable", "some objects of the add-on's works do not exist")
    return Condition.true(type_, "ProbeAvailable", "everything that the add-on consists of is ready")


def _unready(work: Object) -> Iterable[str]:
    for row in _reports(work):
        meta = row.get("resourceMeta") or {}
        no_replica = meta.get("kind") == "Deployment" and not _value(row, "ReadyReplicas")
        wants_pods = meta.get("kind") == "DaemonSet" and _value(row, "DesiredNumberScheduled")
        if no_replica or (wants_pods and not _value(row, "NumberReady")):
            yield f"{meta.get('namespace')}/{meta.get('name')}"


def is_completed(work: Object, hooks: Sequence[Object]) -> bool:
    done = {
        (meta.get("kind"), meta.get("namespace") or "", meta.get("name"))
        for row in _reports(work)
        if _value(row, "JobComplete") == "True" or _value(row, "PodPhase") == "Succeeded"
        for meta in [row.get("resourceMeta") or {}]
    }
    wanted = {(hook.get("kind"), ObjectKey.of(hook).namespace, ObjectKey.of(hook).name) for hook in hooks}
    return wanted <= done


def _reports(work: Object) -> list[Object]:
    return rows_at(work, "status", "resourceStatus", "manifests")


def _value(row: Mapping[str, Any], name: str) -> Any:
    for value in (row.get("statusFeedback") or {}).get("values") or []:
        if value.get("name") == name:
            field = value.get("fieldValue") or {}
            return field.get("integer", field.get("string", field.get("boolean")))
    return None
