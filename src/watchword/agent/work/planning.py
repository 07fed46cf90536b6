"""What a work asks for, as a whole: which objects to apply and how, and which to let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watchword.agent.work.errors import NotPermitted
from watchword.agent.work.executor import executor_of
from watchword.agent.work.manifests import Placed, Refused, Target
from watchword.agent.work.order import choose_order
from watchword.agent.work.outcomes import Outcome
from watchword.agent.work.ownership import Applied, applied_in, choose_stale
from watchword.agent.work.report import is_settled
from watchword.agent.work.treatment import Strategy, choose_treatment, is_orphaned
from watchword.agent.work.writing import Order
from watchword.api.meta import Object, owner_reference, uid_of


@dataclass(frozen=True)
class Plan:
    """Everything that one look at a work and its record has decided."""

    spec: Object
    record: Object
    refused: Sequence[Refused]
    orders: Sequence[Order]  # in the order in which they are applied
    objection: str = ""  # why nothing at all may be applied

    @property
    def written(self) -> list[Target]:
        """The objects that are ours to write."""
        return [order.target for order in self.orders if order.treatment.strategy is not Strategy.READ_ONLY]

    @property
    def targets(self) -> frozenset[Target]:
        """Every object that the work speaks of."""
        return frozenset(order.target for order in self.orders)

    @property
    def owner(self) -> Object:
        """The reference that marks what is ours."""
        return owner_reference(self.record)

    def stale(self) -> list[Applied]:
        """Return what is to be let go: nothing while any manifest might yet turn out to mean one of these objects."""
        if any(one.passing for one in self.refused):
            return []
        return choose_stale(applied_in(self.record), self.written)

    def keeps(self, target: Target) -> bool:
        """Whether an object that is let go stays on the cluster."""
        return target in self.targets or is_orphaned(self.spec, target)


def choose_plan(work: Object, record: Object, manifests: Sequence[Placed | Refused]) -> Plan:
    """Decide what to do about each manifest."""
    spec = work.get("spec") or {}
    known = {one.identity for one in applied_in(record) if one.uid}
    try:
        executor, objection = executor_of(work), ""
    except NotPermitted as refusal:
        executor, objection = None, str(refusal)
    orders = [
        Order(
            placed,
            choose_treatment(spec, placed.target),
            owner_reference(record),
            executor,
            orphaned=is_orphaned(spec, placed.target),
            recorded=placed.target.identity in known,
            settled=is_settled(work),
        )
        for placed in choose_order(one for one in manifests if isinstance(one, Placed))
    ]
    return Plan(spec, record, [one for one in manifests if isinstance(one, Refused)], orders, objection)


def choose_record(plan: Plan, outcomes: Mapping[Target, Outcome], left: Sequence[Applied]) -> list[Applied]:
    """Return what the record should say after everything was tried: what is there, and what still has to go."""
    recorded = {one.identity: one for one in applied_in(plan.record)}
    entries = {one.identity: one for one in left}
    if not plan.stale():
        entries |= recorded
    for target in plan.written:
        present = outcomes[target].present
        before = recorded.get(target.identity)
        uid = uid_of(present) if present is not None else before.uid if before is not None else ""
        entries[target.identity] = Applied.of(target, uid)
    return sorted(entries.values(), key=lambda one: one.identity)
