"""The socket of a control plane: TLS with optional client certificates, and rate limits per client."""

import math
from collections.abc import Callable

from watchword.api.http import Response
from watchword.api.rate_limit import Rate, TokenBuckets
from watchword.apiserver.access.chain import ANONYMOUS_NAME
from watchword.apiserver.access.rbac import is_superuser
from watchword.apiserver.serving.errors import too_large, too_many_requests
from watchword.apiserver.serving.model import HandlerRequest, User
from watchword.apiserver.serving.negotiation import error_response
from watchword.http.connection import RequestHandler, plain_text_rejection
from watchword.http.limits import ServerLimits
from watchword.http.request_parser import RejectedRequest
from watchword.http.server import CurrentContext, HttpServer, delegating_context

API_LIMITS = ServerLimits()
_TOO_LARGE = 413
MAX_TRACKED_CLIENTS = 10_000
"""So many clients are told apart at a time; the longest silent one is forgotten first."""
LIMITED_KINDS = frozenset({"certificatesigningrequests", "events"})
"""What clients with few rights can store without bound: each user may create these at a rate of their own."""


def api_listener(handle: RequestHandler, context: CurrentContext, limits: ServerLimits = API_LIMITS) -> HttpServer:
    """Return a listener for the API; `context` is called at every handshake."""
    return HttpServer(handle, limits, context=delegating_context(context), reject=_refuse)


def _refuse(refused: RejectedRequest) -> Response:
    return error_response(None, too_large()) if refused.status == _TOO_LARGE else plain_text_rejection(refused)


class RequestRateLimiter:
    """Anonymous requests share a bucket per address, wrong credentials one more; each user has its own.

    Members of system:masters are never limited: an administrator must get in when others flood.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        anonymous: Rate = Rate(50, 100),  # noqa: B008 - frozen
        failures: Rate = Rate(20, 100),  # noqa: B008 - frozen
        users: Rate = Rate(1000, 2000),  # noqa: B008 - frozen
        created: Rate = Rate(50, 2000),  # noqa: B008 - frozen
    ) -> None:
        self._clock = clock
        self._anonymous = TokenBuckets(anonymous, MAX_TRACKED_CLIENTS)
        self._failures = TokenBuckets(failures, MAX_TRACKED_CLIENTS)
        self._users = TokenBuckets(users, MAX_TRACKED_CLIENTS)
        self._created = TokenBuckets(created, MAX_TRACKED_CLIENTS)  # of each of the limited kinds

    def known(self, request: HandlerRequest, user: User) -> None:
        if is_superuser(user):
            return
        if user.name == ANONYMOUS_NAME:
            buckets, name = self._anonymous, request.peer.address
        else:
            buckets, name = self._users, user.name
        _require(buckets.take(name, self._clock()))
        info = request.info
        if info.resource in LIMITED_KINDS and info.verb in ("create", "patch") and not info.subresource:
            _require(self._created.take(f"{info.resource} {user.name}", self._clock()))

    def failed(self, request: HandlerRequest) -> None:
        """Count a wrong credential against its address, and refuse when there are too many of them."""
        _require(self._failures.take(request.peer.address, self._clock()))


def _require(wait: float) -> None:
    if wait > 0:
        raise too_many_requests(max(1, math.ceil(wait)))
