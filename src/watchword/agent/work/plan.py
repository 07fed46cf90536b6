"""What a work asks for, as a whole: which objects to apply and how, and which to let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watchword.agent.work.apply_order import choose_apply_order
from watchword.agent.work.errors import NotPermitted
from watchword.agent.work.executor import executor_of
from watchword.agent.work.manifest_config import Strategy, choose_manifest_config, is_orphaned
from watchword.agent.work.manifests import ObjectRef, RejectedManifest, ResolvedManifest
from watchword.agent.work.object_writer import ApplyStep
from watchword.agent.work.outcomes import ApplyOutcome
from watchword.agent.work.ownership import AppliedResource, choose_stale_resources, read_applied_resources
from watchword.agent.work.status import is_generation_applied
from watchword.api.meta import Object, owner_reference, uid_of


@dataclass(frozen=True)
class ApplyPlan:
    """Everything that one look at a work and its record has decided."""

    spec: Object
    record: Object
    refused: Sequence[RejectedManifest]
    steps: Sequence[ApplyStep]  # in the step in which they are applied
    objection: str = ""  # why nothing at all may be applied

    @property
    def written(self) -> list[ObjectRef]:
        """The objects that are ours to write."""
        return [step.target for step in self.steps if step.config.strategy is not Strategy.READ_ONLY]

    @property
    def targets(self) -> frozenset[ObjectRef]:
        """Every object that the work speaks of."""
        return frozenset(step.target for step in self.steps)

    @property
    def owner(self) -> Object:
        """The reference that marks what is ours."""
        return owner_reference(self.record)

    def stale_resources(self) -> list[AppliedResource]:
        """Return what is to be let go: nothing while any manifest might yet turn out to mean one of these objects."""
        if any(one.retryable for one in self.refused):
            return []
        return choose_stale_resources(read_applied_resources(self.record), self.written)

    def is_kept(self, target: ObjectRef) -> bool:
        """Whether an object that is let go stays on the cluster."""
        return target in self.targets or is_orphaned(self.spec, target)


def choose_apply_plan(
    work: Object, record: Object, manifests: Sequence[ResolvedManifest | RejectedManifest]
) -> ApplyPlan:
    """Decide what to do about each manifest."""
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
            orphaned=is_orphaned(spec, manifest.target),
            recorded=manifest.target.identity in known,
            is_generation_applied=is_generation_applied(work),
        )
        for manifest in choose_apply_order(one for one in manifests if isinstance(one, ResolvedManifest))
    ]
    return ApplyPlan(spec, record, [one for one in manifests if isinstance(one, RejectedManifest)], steps, objection)


def choose_applied_resources(
    plan: ApplyPlan, outcomes: Mapping[ObjectRef, ApplyOutcome], left: Sequence[AppliedResource]
) -> list[AppliedResource]:
    """Return what the record should say after everything was tried: what is there, and what still has to go."""
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
