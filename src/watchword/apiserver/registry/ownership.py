"""Keeps managedFields true: who set which field last."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.apiserver.fieldmanager.update import track_update
from watchword.apiserver.model import Now, Operation
from watchword.apiserver.registry.call import Call


@dataclass(frozen=True, slots=True)
class Ownership:
    """Records the fields that a write changed under its manager's name."""

    now: Now

    def track(self, operation: Operation, call: Call) -> None:
        """Update `metadata.managedFields` of the new object in place, before the server adds fields of its own."""
        kind, new = operation.kind, operation.new
        if call.applied or new is None:
            return
        track_update(
            operation.old,
            new,
            kind.schema,
            manager=call.manager,
            api_version=kind.resource.api_version,
            now=self.now(),
            subresource=operation.subresource,
            reset=reset_fields(operation),
        )


def reset_fields(operation: Operation) -> frozenset[str]:
    """Return the top-level fields that this endpoint does not take from the client."""
    if operation.subresource or "status" not in operation.kind.subresources:
        return frozenset()
    return _STATUS


_STATUS = frozenset({"status"})
