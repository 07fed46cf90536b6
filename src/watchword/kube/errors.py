"""The errors of requests to an API server.

KubeError
├── ConfigError           the kubeconfig or credential cannot be used
├── Unreachable           no answer: refused, reset, TLS failed
│   ├── TimedOut          no response within the deadline
│   ├── Untrusted         its certificate is not that of the server we mean
│   ├── ClientCertificateRefused   it ended the connection because of our certificate
│   └── Stalled           a watch that fell silent: neither events nor bookmarks
├── MalformedResponse       an answer that is not Kubernetes (HTML, truncated JSON)
└── ApiStatusError        the server answered with a Status
    ├── BadRequest 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
    ├── Conflict 409     AlreadyExists 409  Gone 410        UnsupportedMediaType 415
    ├── Invalid 422      TooManyRequests 429
    └── ServerError 5xx
"""

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import Object, mapping_at, rows_at


class KubeError(Exception):
    """Base of the errors of this package."""


class ConfigError(KubeError):
    """The configuration cannot be used as it stands; the message says what to change."""


class Unreachable(KubeError):
    """The server sent no response; unless `maybe_processed`, the request certainly had no effect."""

    def __init__(self, message: str, *, maybe_processed: bool = True) -> None:
        super().__init__(message)
        self.maybe_processed = maybe_processed


class TimedOut(Unreachable):
    """The server sent no response in time."""


class Untrusted(Unreachable):
    """The server's certificate is not accepted: nothing was sent to it."""


class ClientCertificateRefused(Unreachable):
    """The server refused the client certificate by a TLS alert: it is not reachable with this credential."""


class CredentialReplaced(Unreachable):
    """A stream ended because another credential is in use from now on; it can be opened again at once."""


class Stalled(Unreachable):
    """A watch was open but silent for longer than a working server allows."""


class MalformedResponse(KubeError):
    """The response is not that of a Kubernetes API server."""


class ApiStatusError(KubeError):
    """The server refused; `status` is its Status object."""

    def __init__(self, message: str, *, code: int, reason: str = "", status: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.status: Mapping[str, Any] = status or {}
        self.retry_after: float | None = None


class BadRequest(ApiStatusError):
    """400: the request itself is wrong."""


class Unauthorized(ApiStatusError):
    """401: the server does not know the client's identity."""


class Forbidden(ApiStatusError):
    """403: the client's identity lacks the right."""


class NotFound(ApiStatusError):
    """404: no such object or path."""


class MethodNotAllowed(ApiStatusError):
    """405: the resource has no such verb."""


class Conflict(ApiStatusError):
    """409: the object changed meanwhile, a precondition failed, or another manager owns a field."""


class AlreadyExists(Conflict):
    """409: the name is taken."""


class Gone(ApiStatusError):
    """410: the resource version is too old to continue from."""


class UnsupportedMediaType(ApiStatusError):
    """406 or 415: no common media type."""


class Invalid(ApiStatusError):
    """422: the object breaks a rule of its kind."""


class TooManyRequests(ApiStatusError):
    """429: slow down; `retry_after` says for how long, when the server said so."""


class ServerError(ApiStatusError):
    """5xx: the server failed."""


_BY_CODE: dict[int, type[ApiStatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: UnsupportedMediaType,
    409: Conflict,
    410: Gone,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(code: int, status: Mapping[str, Any]) -> ApiStatusError:
    reason = str(status.get("reason") or "")
    by_code = _BY_CODE.get(code, ServerError if code >= 500 else ApiStatusError)
    kind = AlreadyExists if reason == "AlreadyExists" else by_code
    message = str(status.get("message") or f"the server answered {code}")
    error = kind(message, code=code, reason=reason, status=status)
    seconds = mapping_at(status, "details").get("retryAfterSeconds")
    error.retry_after = float(seconds) if isinstance(seconds, int) and 0 < seconds < 1_000_000 else None
    return error


def causes_of(error: ApiStatusError) -> list[Object]:
    return rows_at(error.status, "details", "causes")
