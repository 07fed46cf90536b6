"""What came of applying one manifest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError


class Reason(StrEnum):
    """Why a manifest counts as applied or not, for programs."""

    COMPLETE = "AppliedManifestComplete"
    FAILED = "AppliedManifestFailed"
    IGNORE_FIELD_ERROR = "AppliedManifestSSAIgnoreFieldError"


class Again(IntEnum):
    """When to try again, the most urgent last."""

    WHEN_CHANGED = 0  # or at the next regular look
    IN_A_MINUTE = 1
    WITH_BACKOFF = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The object as it is now, or why it could not be applied."""

    present: Object | None = None
    why: str = ""  # empty: it is applied
    again: Again = Again.WHEN_CHANGED
    reason: Reason = Reason.COMPLETE
    error: ApiStatusError | None = None

    @classmethod
    def failed(
        cls, why: str, again: Again, reason: Reason = Reason.FAILED, error: ApiStatusError | None = None
    ) -> Outcome:
        """Say why it was not applied."""
        return cls(None, why, again, reason, error)
