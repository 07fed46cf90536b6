"""The socket of a control plane: TLS with optional client certificates, refusals as Status objects."""

from __future__ import annotations

from watchword.api.http import Response
from watchword.apiserver.errors import MAX_BODY_BYTES, too_large
from watchword.apiserver.negotiation import error_response
from watchword.http.connection import RequestHandler, plain_text_rejection
from watchword.http.limits import ServerLimits
from watchword.http.request_parser import RejectedRequest
from watchword.http.server import CurrentContext, HttpServer, delegating_context

API_LIMITS = ServerLimits(body_bytes=MAX_BODY_BYTES)


def api_listener(handle: RequestHandler, context: CurrentContext, limits: ServerLimits = API_LIMITS) -> HttpServer:
    """Return a listener for the API; `context` is called at every handshake."""
    return HttpServer(handle, limits, context=delegating_context(context), reject=_refuse)


def _refuse(refused: RejectedRequest) -> Response:
    return error_response(None, too_large()) if refused.status == _TOO_LARGE else plain_text_rejection(refused)


_TOO_LARGE = 413
