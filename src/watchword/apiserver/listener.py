"""The socket of a control plane: TLS with optional client certificates, refusals as Status objects."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from watchword.api.http import Response
from watchword.apiserver.errors import MAX_BODY_BYTES, too_large
from watchword.apiserver.negotiation import error_response
from watchword.http.connection import RequestHandler, plain_text_rejection
from watchword.http.limits import ServerLimits
from watchword.http.request_parser import RejectedRequest
from watchword.http.server import HttpServer

CurrentContext = Callable[[], ssl.SSLContext]
API_LIMITS = ServerLimits(body_bytes=MAX_BODY_BYTES)


def api_listener(handle: RequestHandler, context: CurrentContext, limits: ServerLimits = API_LIMITS) -> HttpServer:
    """Return a listener for the API; `context` is called at every handshake."""
    return HttpServer(handle, limits, context=delegating_context(context), reject=_refuse)


def _refuse(refused: RejectedRequest) -> Response:
    return error_response(None, too_large()) if refused.status == _TOO_LARGE else plain_text_rejection(refused)


_TOO_LARGE = 413


def delegating_context(current: CurrentContext) -> ssl.SSLContext:
    """Return a context that hands every handshake to the current one: certificates change without a restart."""
    front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def choose(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = current()

    front.sni_callback = choose
    front.minimum_version = ssl.TLSVersion.TLSv1_2
    front.set_alpn_protocols(["http/1.1"])
    # OpenSSL decides about client certificates before the callback: request one here, check it later.
    front.verify_mode = ssl.CERT_OPTIONAL
    front.verify_flags |= _NO_CHECK_TIME
    return front


def serving_context(certificate_file: str, key_file: str, client_roots_pem: bytes) -> ssl.SSLContext:
    """Return a context with the serving certificate that accepts client certificates of the given CAs.

    A client without one may connect. Dates are checked by the authenticator, because an expired certificate is a
    refused identity (401) rather than a broken connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_file, key_file)
    context.load_verify_locations(cadata=client_roots_pem.decode("ascii"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= _NO_CHECK_TIME
    context.set_alpn_protocols(["http/1.1"])
    return context


_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME
