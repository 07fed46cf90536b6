"""What a failed gRPC call means: the answer of an API server, or no answer at all."""

from __future__ import annotations

import ssl

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from watchword.kube.dial import NotConnected
from watchword.kube.errors import (
    ApiStatusError,
    KubeError,
    MalformedResponse,
    TimedOut,
    Unreachable,
    error_from_status,
)
from watchword.kube.transport_errors import to_kube_error as to_connection_error
from watchword.registration.grpc.errors import MalformedEvent, MalformedStatus
from watchword.registration.grpc.status_errors import decode_status

_REFUSALS: dict[Status, tuple[int, str]] = {
    Status.INVALID_ARGUMENT: (400, "BadRequest"),
    Status.UNAUTHENTICATED: (401, "Unauthorized"),
    Status.PERMISSION_DENIED: (403, "Forbidden"),
    Status.NOT_FOUND: (404, "NotFound"),
    Status.UNIMPLEMENTED: (405, "MethodNotAllowed"),
    Status.ALREADY_EXISTS: (409, "AlreadyExists"),
    Status.ABORTED: (409, "Conflict"),
    Status.RESOURCE_EXHAUSTED: (429, "TooManyRequests"),
    Status.FAILED_PRECONDITION: (500, "InternalError"),
    Status.INTERNAL: (500, "InternalError"),
    Status.UNKNOWN: (500, "InternalError"),
}
_LONGEST_TEXT = 1000


def to_kube_error(cause: BaseException, server: str, *, with_certificate: bool) -> Exception:
    """Return our error for a failed call; the message names the server and the reason."""
    if isinstance(cause, KubeError):
        return cause
    if isinstance(cause, GRPCError):
        return _to_refusal(cause, server)
    if isinstance(cause, MalformedEvent):
        return MalformedResponse(f"{server} sent an event that cannot be read: {cause}")
    if isinstance(cause, TimeoutError):
        return TimedOut(f"{server} did not answer in time")
    if isinstance(cause, OSError | ssl.SSLError):
        unconnected = NotConnected()
        unconnected.__cause__ = cause
        return to_connection_error(unconnected, server, with_certificate=with_certificate)
    return to_connection_error(cause, server, with_certificate=with_certificate)


def _to_refusal(error: GRPCError, server: str) -> KubeError:
    try:
        return decode_status(str(error.message or ""))
    except MalformedStatus:  # from OCM's server, or from a proxy in front of one
        text = str(error.message or "")[:_LONGEST_TEXT]
    known = _REFUSALS.get(error.status)
    if known is None:
        return Unreachable(f"{server} cannot answer: {text or error.status.name}")
    return make_refusal(*known, text or f"{server} answered {error.status.name}")


def make_refusal(code: int, reason: str, message: str) -> ApiStatusError:
    """Return a refusal with its Status."""
    return error_from_status(code, {"code": code, "reason": reason, "message": message})
