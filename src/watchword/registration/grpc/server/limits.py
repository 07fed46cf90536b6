"""What the server accepts from its clients, and how it refuses the rest."""

from typing import Any

import structlog
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from msgspec import Struct

from watchword.api.rate_limit import Rate, TokenBuckets
from watchword.kube.errors import ApiStatusError, KubeError, Unauthorized, error_from_status
from watchword.registration.grpc.errors import GrpcDriverError, encode_status

_CODES = {
    400: (Status.INVALID_ARGUMENT, "BadRequest"),
    401: (Status.UNAUTHENTICATED, "Unauthorized"),
    403: (Status.PERMISSION_DENIED, "Forbidden"),
    404: (Status.FAILED_PRECONDITION, "NotFound"),
    413: (Status.RESOURCE_EXHAUSTED, "RequestEntityTooLarge"),
    429: (Status.RESOURCE_EXHAUSTED, "TooManyRequests"),
    500: (Status.INTERNAL, "InternalError"),
    503: (Status.UNAVAILABLE, "ServiceUnavailable"),
}


class RequestRefused(GrpcDriverError):
    """The server refuses a request; `code` is the HTTP code of the Status that the client receives."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def grpc_error(error: Exception) -> GRPCError:
    """Return the gRPC error with which a request ends; an unexpected error is logged, and reveals nothing."""
    if isinstance(error, GRPCError):
        return error
    if isinstance(error, RequestRefused):
        return _refusal(error.code, str(error))
    if isinstance(error, GrpcDriverError):
        return _refusal(400, str(error))
    if isinstance(error, ApiStatusError) and not isinstance(error, Unauthorized):
        return GRPCError(Status.FAILED_PRECONDITION, encode_status(error))
    if isinstance(error, KubeError):  # the server's own problem, not the agent's
        return _refusal(503, "the gRPC server cannot use the hub's API server now: try again")
    log: Any = structlog.get_logger("watchword.grpc-server")
    log.error("request failed", error=type(error).__name__, exc_info=error)
    return _refusal(500, "the gRPC server failed: its log says why")


def _refusal(code: int, message: str) -> GRPCError:
    status, reason = _CODES[code]
    return GRPCError(status, encode_status(error_from_status(code, {"reason": reason, "message": message})))


class GrpcLimits(Struct, frozen=True, kw_only=True):
    """Sizes, rates and times; the defaults are those of Open Cluster Management's server where it has them."""

    message_bytes: int = 4 * 1024 * 1024
    connections: int = 4096  # fewer where the process may not open so many files
    streams_per_connection: int = 100
    window_bytes: int = 256 * 1024  # how much of a connection is buffered before it is read
    handshake_seconds: float = 10.0
    authentication_seconds: float = 60.0  # from the handshake to the first call of a known user
    frames: Rate = Rate(200, 1000)  # of one connection: calls, resets, pings and settings
    unauthenticated_frames: Rate = Rate(20, 30)  # of any kind, before a call is authenticated: an agent sends a dozen
    receive_seconds: float = 30.0  # from the headers of a request to the end of its message
    send_seconds: float = 30.0  # how long a client may stop reading
    ping_seconds: float = 30.0
    ping_timeout_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
    requests_per_second: float = 50.0  # of one user; the rate to which agents limit themselves
    burst: int = 200
    drain_seconds: float = 10.0

    def user_rates(self) -> TokenBuckets:
        """Return the buckets of all users; one that is forgotten was silent for long enough to be full again."""
        return TokenBuckets(Rate(self.requests_per_second, self.burst), 4 * self.connections)
