"""When a request is worth sending again, and how long to wait before that."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable, Untrusted

_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_APPLY_TYPE = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double up to a limit; half of each is random, so that a fleet does not march in step."""

    first: float = 0.1
    factor: float = 2.0
    limit: float = 30.0

    def delay(self, failures: int, random: Random) -> float:
        """Return the seconds to wait after that many failures in a row (at least one)."""
        ceiling = min(self.limit, self.first * self.factor ** min(failures - 1, 64))
        return ceiling * (0.5 + random.random() / 2)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient a client is: tries per call, seconds per try and seconds for the whole call."""

    attempts: int = 5
    attempt_timeout: float = 30.0
    deadline: float = 60.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, limit=5.0))


NO_RETRY = RetryPolicy(attempts=1)
"""The policy of a caller that does its own retrying."""


def is_idempotent(request: Request) -> bool:
    """Tell whether sending the request twice leaves the same state as sending it once."""
    return request.method in _SAFE_METHODS or request.header("Content-Type") == _APPLY_TYPE


def is_retryable(request: Request, outcome: Response | Unreachable) -> bool:
    """Tell whether another try may succeed without risking to do the work twice."""
    if isinstance(outcome, Unreachable):
        return not isinstance(outcome, Untrusted) and (is_idempotent(request) or not outcome.maybe_processed)
    if outcome.status == 429 or (outcome.status == 503 and retry_after(outcome) is not None):
        return True  # the server turned the request away before looking at it
    return outcome.status in _TRANSIENT_STATUSES and is_idempotent(request)


def choose_retry_delay(
    policy: RetryPolicy, request: Request, outcome: Response | Unreachable, failures: int, random: Random
) -> float | None:
    """Return the seconds to wait before the next try; None when there should be none."""
    if failures >= policy.attempts or not is_retryable(request, outcome):
        return None
    pause = policy.backoff.delay(failures, random)
    asked = retry_after(outcome) if isinstance(outcome, Response) else None
    return pause if asked is None else asked + pause


def retry_after(response: Response) -> float | None:
    """Return the seconds a server asks to wait; None when it does not say or says nonsense."""
    text = response.header("Retry-After")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
