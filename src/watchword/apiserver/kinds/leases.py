"""Leases: what a holder may claim."""

from __future__ import annotations

from watchword.apiserver import field_errors as broken
from watchword.apiserver.model import FieldError, Operation

_STRATEGIES = ("OldestEmulationVersion",)


def validate_lease(operation: Operation) -> list[FieldError]:
    """Validate durations, transitions and the strategy of coordinated election."""
    spec = (operation.new or {}).get("spec") or {}
    found = list[FieldError]()
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.append(broken.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(broken.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    strategy = spec.get("strategy")
    if strategy is not None and strategy not in _STRATEGIES:
        found.append(broken.not_supported("spec.strategy", strategy, _STRATEGIES))
    if spec.get("preferredHolder") and not strategy:
        detail = "may only be specified if `strategy` is defined"
        found.append(broken.forbidden("spec.preferredHolder", detail))
    return found
