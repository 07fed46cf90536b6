"""Decides whether a request is sent again, and after which delay."""

from __future__ import annotations

from random import Random

from msgspec import Struct, field

from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable, Untrusted

_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_APPLY_TYPE = "application/apply-patch+yaml"


class Backoff(Struct, frozen=True):
    """Exponential backoff up to a limit; half of each delay is random, so that clients do not retry in step."""

    first: float = 0.1
    factor: float = 2.0
    limit: float = 30.0

    def delay(self, failures: int, random: Random) -> float:
        """Return the delay in seconds after that many failures in a row (at least one)."""
        ceiling = min(self.limit, self.first * self.factor ** min(failures - 1, 64))
        return ceiling * (0.5 + random.random() / 2)


class RetryPolicy(Struct, frozen=True):
    """Limits of a client: attempts per call, seconds per attempt and seconds for the whole call."""

    attempts: int = 5
    attempt_timeout: float = 30.0
    deadline: float = 60.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, limit=5.0))


NO_RETRY = RetryPolicy(attempts=1)
"""The policy of a caller that retries by itself."""


def is_idempotent(request: Request) -> bool:
    """Whether sending the request twice leaves the same state as sending it once."""
    return request.method in _SAFE_METHODS or request.header("Content-Type") == _APPLY_TYPE


def is_retryable(request: Request, outcome: Response | Unreachable) -> bool:
    """Whether another attempt may succeed without the risk of doing the work twice."""
    if isinstance(outcome, Unreachable):
        return not isinstance(outcome, Untrusted) and (is_idempotent(request) or not outcome.maybe_processed)
    if outcome.status == 429 or (outcome.status == 503 and retry_after(outcome) is not None):
        return True  # the server rejected the request before processing it
    return outcome.status in _TRANSIENT_STATUSES and is_idempotent(request)


def choose_retry_delay(
    policy: RetryPolicy, request: Request, outcome: Response | Unreachable, failures: int, random: Random
) -> float | None:
    """Return the seconds to wait before the next attempt; None when there should be none."""
    if failures >= policy.attempts or not is_retryable(request, outcome):
        return None
    pause = policy.backoff.delay(failures, random)
    asked = retry_after(outcome) if isinstance(outcome, Response) else None
    return pause if asked is None else asked + pause


def retry_after(response: Response) -> float | None:
    """Return the seconds of a Retry-After header; None when it is absent or invalid."""
    text = response.header("Retry-After")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
