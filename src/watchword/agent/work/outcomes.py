"""What came of applying one manifest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError


class AppliedReason(StrEnum):
    """Why a manifest counts as applied or not, for programs."""

    COMPLETE = "AppliedManifestComplete"
    FAILED = "AppliedManifestFailed"
    IGNORE_FIELD_ERROR = "AppliedManifestSSAIgnoreFieldError"


class RetryMode(IntEnum):
    """When to try retry, the most urgent last."""

    ON_CHANGE = 0  # or at the next regular look
    AFTER_MINUTE = 1
    WITH_BACKOFF = 2


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """The object as it is now, or why it could not be applied."""

    present: Object | None = None
    why: str = ""  # empty: it is applied
    retry: RetryMode = RetryMode.ON_CHANGE
    reason: AppliedReason = AppliedReason.COMPLETE
    error: ApiStatusError | None = None

    @classmethod
    def failed(
        cls,
        why: str,
        retry: RetryMode,
        reason: AppliedReason = AppliedReason.FAILED,
        error: ApiStatusError | None = None,
    ) -> ApplyOutcome:
        """Say why it was not applied."""
        return cls(None, why, retry, reason, error)
