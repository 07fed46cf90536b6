"""What a work asks for, as a whole: which objects to apply and how, which to remove, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from msgspec import Struct

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey, ObjectRef, mapping_at, owner_reference, rows_at, uid_of
from watchword.api.names import Annotation, ConditionType
from watchword.kube.errors import ApiStatusError
from watchword.work.applied_work_store import AppliedResource, read_applied_resources
from watchword.work.executor import DELETE_VERBS, WRITE_VERBS, NotPermitted, executor_of
from watchword.work.manifests import RejectedManifest, ResolvedManifest, choose_apply_order

FIELD_MANAGER = "work-agent"
UNDELETABLE_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Namespaces that no server lets go: owning one would only keep its work from ever being removed."""


class Strategy(StrEnum):
    """How an object is kept as wanted."""

    UPDATE = "Update"
    CREATE_ONLY = "CreateOnly"
    SERVER_SIDE_APPLY = "ServerSideApply"
    READ_ONLY = "ReadOnly"


class ManifestConfig(Struct, frozen=True):
    """What the configuration of a work says about one manifest."""

    strategy: Strategy = Strategy.UPDATE
    manager: str = FIELD_MANAGER
    force: bool = False
    ignored: tuple[Object, ...] = ()
    feedback: tuple[Object, ...] = ()
    rules: tuple[Object, ...] = ()


def choose_manifest_config(spec: Mapping[str, Any], target: ObjectRef) -> ManifestConfig:
    """Return the configuration of one object: an exact match first, then a match by pattern.

    An unknown strategy is read as the one that writes nothing.
    """
    matching = [row for row in rows_at(spec, "manifestConfigs") if is_match(row.get("resourceIdentifier"), target)]
    exact = [row for row in matching if _identity(row.get("resourceIdentifier")) == target.identity]
    config = (exact or matching or [{}])[0]
    kind = mapping_at(config, "updateStrategy").get("type") or Strategy.UPDATE
    apply = mapping_at(config, "updateStrategy", "serverSideApply")
    manager = str(apply.get("fieldManager") or FIELD_MANAGER)
    return ManifestConfig(
        Strategy(kind) if kind in tuple(Strategy) else Strategy.READ_ONLY,
        manager if manager.startswith(FIELD_MANAGER) else FIELD_MANAGER,
        force=apply.get("force") is True,
        ignored=tuple(rows_at(apply, "ignoreFields")),
        feedback=tuple(rows_at(config, "feedbackRules")),
        rules=tuple(rows_at(config, "conditionRules")),
    )


def is_orphaned(spec: Mapping[str, Any], target: ObjectRef) -> bool:
    if target.identity[:2] == ("", "namespaces") and target.key.name in UNDELETABLE_NAMESPACES:
        return True
    policy = mapping_at(spec, "deleteOption").get("propagationPolicy") or "Foreground"
    if policy == "SelectivelyOrphan":
        rules = rows_at(spec, "deleteOption", "selectivelyOrphans", "orphaningRules")
        return any(is_match(rule, target) for rule in rules)
    return bool(policy == "Orphan")


def is_match(identifier: Any, target: ObjectRef) -> bool:
    """Whether an identifier, in which `*` stands for anything in namespace and name, includes an object."""
    group, resource, namespace, name = _identity(identifier)
    same_kind = (group, resource) == target.identity[:2]
    return same_kind and matches_pattern(namespace, target.key.namespace) and matches_pattern(name, target.key.name)


def _identity(identifier: Any) -> tuple[str, ...]:
    row = mapping_at(identifier)
    return tuple(str(row.get(field) or "") for field in ("group", "resource", "namespace", "name"))


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern says, in time proportional to both."""
    first, *others = pattern.split("*")
    if not others:
        return pattern == text
    *middle, last = others
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    rest = text[len(first) : len(text) - len(last)]
    for part in middle:
        _, found, rest = rest.partition(part) if part else ("", "-", rest)
        if not found:
            return False
    return True


class ApplyStep(Struct, frozen=True):
    """One object to apply, and everything that decides how."""

    manifest: ResolvedManifest
    config: ManifestConfig
    owner: Object  # the reference to the work's record
    executor: ObjectKey | None = None
    objection: str = ""  # why nothing is done with the object, nor read of it
    orphaned: bool = False
    recorded: bool = False  # whether it has been applied before, so that it is likely there
    is_generation_applied: bool = False  # whether this very manifest has been applied before
    is_shared: bool = False  # whether other works name the object, too
    deciding_work: str = ""  # the older work that says what a shared object holds

    @property
    def target(self) -> ObjectRef:
        return self.manifest.target

    @property
    def wanted(self) -> Object:
        return self.manifest.wanted

    @property
    def verbs(self) -> tuple[str, ...]:
        return WRITE_VERBS if self.orphaned else (*WRITE_VERBS, *DELETE_VERBS)

    @property
    def unwanted_owner(self) -> str:
        """The UID of the owner that the object must not have: it outlives its work."""
        return str(self.owner["uid"]) if self.orphaned else ""

    def other_owners(self, present: Object | None) -> list[Object]:
        """Return the references to other works, which server-side apply by the same manager would take off."""
        rows = ((present or {}).get("metadata") or {}).get("ownerReferences") or ()
        return [row for row in rows if row.get("kind") == self.owner["kind"] and row.get("uid") != self.owner["uid"]]

    def with_owner_references(self, body: Object, present: Object | None = None) -> Object:
        """Return what is written: with our reference, unless the object outlives its work, and those of other works."""
        owners = [*self.other_owners(present), *([] if self.orphaned else [self.owner])]
        return {**body, "metadata": {**body["metadata"], "ownerReferences": owners}} if owners else body


class RetryMode(IntEnum):
    """When to try again, the most urgent last."""

    ON_CHANGE = 0  # or at the next regular look
    AFTER_MINUTE = 1
    WITH_BACKOFF = 2


class ApplyOutcome(Struct, frozen=True, kw_only=True):
    """The object as it is now, or why it could not be applied."""

    present: Object | None = None
    why: str = ""  # empty: it is applied
    retry: RetryMode = RetryMode.ON_CHANGE
    reason: str = "AppliedManifestFailed"  # of the condition, when it is not applied
    error: ApiStatusError | None = None
    is_readable: bool = True  # whether the executor may know what is there


ApplyOutcomes = Mapping[ObjectRef, ApplyOutcome]


class ApplyPlan(Struct, frozen=True):
    """Everything that one look at a work and its record has decided."""

    spec: Object
    record: Object
    refused: Sequence[RejectedManifest]
    steps: Sequence[ApplyStep]  # in the order in which they are applied

    @property
    def written(self) -> list[ObjectRef]:
        """The objects that the record names: also those that were applied before they were refused."""
        writing = (step for step in self.steps if step.config.strategy is not Strategy.READ_ONLY)
        return [step.target for step in writing if step.recorded or not step.objection]

    @property
    def targets(self) -> frozenset[ObjectRef]:
        return frozenset(step.target for step in self.steps)

    def stale_resources(self) -> list[AppliedResource]:
        """Return what is to be removed: nothing while any manifest might yet turn out to mean one of these objects."""
        if any(one.retryable for one in self.refused):
            return []
        wanted = {target.identity for target in self.written}
        return [one for one in read_applied_resources(self.record) if one.identity not in wanted]

    def is_kept(self, target: ObjectRef) -> bool:
        return target in self.targets or is_orphaned(self.spec, target)


def choose_apply_plan(
    work: Object,
    record: Object,
    manifests: Sequence[ResolvedManifest | RejectedManifest],
    protected: frozenset[str] = frozenset(),
) -> ApplyPlan:
    """Decide what to do with each manifest; `protected` are the namespaces that only an executor may change."""
    spec = work.get("spec") or {}
    known = {one.identity for one in read_applied_resources(record) if one.uid}
    try:
        executor, objection = executor_of(work), ""
    except NotPermitted as refusal:
        executor, objection = None, str(refusal)
    steps = [
        ApplyStep(
            manifest,
            choose_manifest_config(spec, manifest.target),
            owner_reference(record),
            executor,
            objection or (_objection(manifest.target, protected) if executor is None else ""),
            orphaned=is_orphaned(spec, manifest.target),
            recorded=manifest.target.identity in known,
            is_generation_applied=is_generation_applied(work),
        )
        for manifest in choose_apply_order(one for one in manifests if isinstance(one, ResolvedManifest))
    ]
    return ApplyPlan(spec, record, [one for one in manifests if isinstance(one, RejectedManifest)], steps)


def _objection(target: ObjectRef, protected: frozenset[str]) -> str:
    namespace = target.key.name if target.identity[:2] == ("", "namespaces") else target.key.namespace
    if namespace not in protected:
        return ""
    return (
        f"the namespace {namespace} is protected from works without an executor: name an executor that may change it, "
        f"or allow it for all works with the annotation {Annotation.WORK_NAMESPACES}={namespace} of the Klusterlet"
    )


def is_generation_applied(work: Mapping[str, Any]) -> bool:
    wanted = (ConditionType.WORK_APPLIED, "True", mapping_at(work, "metadata").get("generation"))
    rows = conditions_of(work)
    return any((row.get("type"), row.get("status"), row.get("observedGeneration")) == wanted for row in rows)


def choose_applied_resources(
    plan: ApplyPlan, outcomes: ApplyOutcomes, left: Sequence[AppliedResource]
) -> list[AppliedResource]:
    """Return the new content of the record: what exists, and what must still be deleted."""
    recorded = {one.identity: one for one in read_applied_resources(plan.record)}
    entries = {one.identity: one for one in left}
    if not plan.stale_resources():
        entries |= recorded
    for target in plan.written:
        present = outcomes[target].present
        before = recorded.get(target.identity)
        uid = uid_of(present) if present is not None else before.uid if before is not None else ""
        entries[target.identity] = AppliedResource.of(target, uid)
    return sorted(entries.values(), key=lambda one: one.identity)
