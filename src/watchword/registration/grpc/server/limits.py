"""How much the server accepts from its clients, and for how long it waits for them."""

from __future__ import annotations

import asyncio

from msgspec import Struct, field

from watchword.registration.grpc.server.refusals import RequestRefused


class GrpcLimits(Struct, frozen=True, kw_only=True):
    """Sizes, rates and times; the defaults are those of Open Cluster Management's server where it has them."""

    message_bytes: int = 4 * 1024 * 1024
    connections: int = 4096  # fewer where the process may not open so many files
    streams_per_connection: int = 100
    window_bytes: int = 256 * 1024  # how much of a connection is buffered before it is read
    handshake_seconds: float = 10.0
    receive_seconds: float = 30.0  # from the headers of a request to the end of its message
    send_seconds: float = 30.0  # how long a client may stop reading
    ping_seconds: float = 30.0
    ping_timeout_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
    requests_per_second: float = 50.0  # of one user; the rate to which agents limit themselves
    burst: int = 200
    drain_seconds: float = 10.0


class RequestRates(Struct):
    """Limits the requests of each user: a bucket that fills at the allowed rate."""

    limits: GrpcLimits
    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)  # tokens left, when

    def take(self, user: str) -> None:
        """Count a request; `RequestRefused` with code 429 when the user has sent too many."""
        now = asyncio.get_running_loop().time()
        level, since = self._levels.pop(user, (float(self.limits.burst), now))
        level = min(self.limits.burst, level + (now - since) * self.limits.requests_per_second)
        if level < 1:
            self._levels[user] = level, now
            raise RequestRefused(429, "this user sends too many requests: send fewer, or wait some seconds")
        self._levels[user] = level - 1, now
        if len(self._levels) > 4 * self.limits.connections:  # the user that was silent longest has a full bucket
            del self._levels[next(iter(self._levels))]
