"""Refusals of server-side apply.

ApiError
└── ApplyConflict   409: other managers own fields that the configuration would change
"""

from __future__ import annotations

from collections.abc import Sequence

from watchword.apiserver.fieldmanager.fieldset import Path, print_path
from watchword.apiserver.fieldmanager.managers import ManagerIdentity
from watchword.apiserver.model import ApiError

Conflict = tuple[ManagerIdentity, Path]


class ApplyConflict(ApiError):
    """Carries each conflicting field as a cause; `force` takes them all."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": print_path(path)}
            for owner, path in conflicts
        ]
        super().__init__(409, "Conflict", _message(conflicts), {"causes": causes})
        self.conflicts = tuple(conflicts)


def _message(conflicts: Sequence[Conflict]) -> str:
    if len(conflicts) == 1:
        ((owner, path),) = conflicts
        return f"Apply failed with 1 conflict: conflict with {owner}: {print_path(path)}"
    lines: list[str] = []
    for owner in dict.fromkeys(owner for owner, _ in conflicts):
        lines.append(f"conflicts with {owner}:")
        lines.extend(f"- {print_path(path)}" for manager, path in conflicts if manager == owner)
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
