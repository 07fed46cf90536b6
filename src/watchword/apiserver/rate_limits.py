"""Rate limits per client: anonymous by address, users by name."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from watchword.apiserver.authn.model import ANONYMOUS_NAME
from watchword.apiserver.authz.model import is_superuser
from watchword.apiserver.errors import too_many_requests
from watchword.apiserver.model import HandlerRequest, User

MAX_TRACKED_CLIENTS = 10_000
"""So many clients are told apart at a time; the longest silent one is forgotten first."""


class Rate(Struct, frozen=True):
    """So many requests a second, and so many at once after a silence."""

    per_second: float
    burst: float


class TokenBuckets:
    """One token bucket per name."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, as of when

    def wait(self, name: str) -> float:
        """Return how long the name must wait for its next token; 0 when it has one."""
        tokens = self._tokens(name, self._clock())
        return 0.0 if tokens >= 1 else (1 - tokens) / self._rate.per_second

    def take(self, name: str) -> None:
        """Take one token, down to none."""
        now = self._clock()
        self._levels[name] = (max(self._tokens(name, now) - 1, 0.0), now)
        self._levels.move_to_end(name)
        if len(self._levels) > MAX_TRACKED_CLIENTS:
            self._levels.popitem(last=False)

    def _tokens(self, name: str, now: float) -> float:
        tokens, since = self._levels.get(name, (self._rate.burst, now))
        return min(self._rate.burst, tokens + (now - since) * self._rate.per_second)


class RequestRateLimiter:
    """Strangers share a bucket per address, wrong credentials one more, and each user has its own.

    Members of system:masters are never limited: an administrator must get in when others flood.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        anonymous: Rate = Rate(50, 100),  # noqa: B008 - frozen
        failures: Rate = Rate(20, 100),  # noqa: B008 - frozen
        users: Rate = Rate(1000, 2000),  # noqa: B008 - frozen
    ) -> None:
        self._anonymous = TokenBuckets(anonymous, clock)
        self._failures = TokenBuckets(failures, clock)
        self._users = TokenBuckets(users, clock)

    def known(self, request: HandlerRequest, user: User) -> None:
        """Refuse a client that sends too many requests."""
        if is_superuser(user):
            return
        if user.name == ANONYMOUS_NAME:
            buckets, name = self._anonymous, request.peer.address
        else:
            buckets, name = self._users, user.name
        _require(buckets.wait(name))
        buckets.take(name)

    def failed(self, request: HandlerRequest) -> None:
        """Count a wrong credential against its address, and refuse when there are too many of them."""
        address = request.peer.address
        _require(self._failures.wait(address))
        self._failures.take(address)


def _require(wait: float) -> None:
    if wait > 0:
        raise too_many_requests(max(1, math.ceil(wait)))
