"""Faults on demand: throttling by rate, and refusals of chosen actions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct, field
from tests.emulators.aws.errors import JSON_SERVICES, AwsFault

from watchword.runtime.clock import Clock


class Call(Struct, frozen=True):
    """One request that arrived."""

    service: str
    action: str
    account: str  # empty when it was not authenticated
    error: str = ""  # the code of the refusal


@dataclass(slots=True)
class RateLimit:
    """A token bucket that holds the requests of one second, at least one."""

    per_second: float
    tokens: float
    filled_at: datetime

    def take(self, now: datetime) -> bool:
        """Whether another request is within the rate."""
        earned = (now - self.filled_at).total_seconds() * self.per_second
        self.tokens, self.filled_at = min(max(1.0, self.per_second), self.tokens + earned), now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Faults(Struct, frozen=True):
    """What a test ordered; without orders every request is served."""

    clock: Clock
    limits: dict[str, RateLimit] = field(default_factory=dict)
    refusals: dict[str, list[AwsFault]] = field(default_factory=dict)

    def throttle(self, service: str, per_second: float) -> None:
        """Answer at most so many requests a second."""
        self.limits[service] = RateLimit(per_second, max(1.0, per_second), self.clock.now())

    def refuse(self, action: str, fault: AwsFault, times: int = 1) -> None:
        """Refuse the next requests for an action."""
        self.refusals.setdefault(action, []).extend([fault] * times)

    def check_rate(self, service: str) -> None:
        """Raise the refusal of a request beyond the rate."""
        limit = self.limits.get(service)
        if limit is not None and not limit.take(self.clock.now()):
            code, status = ("ThrottlingException", 429) if service in JSON_SERVICES else ("Throttling", 400)
            raise AwsFault(code, "Rate exceeded", status)

    def check_action(self, action: str) -> None:
        """Raise the refusal that was ordered for an action."""
        waiting = self.refusals.get(action)
        if waiting:
            raise waiting.pop(0)
