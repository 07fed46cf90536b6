"""Describes in one sentence why there was no response: from socket, TLS and HTTP errors to ours."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from watchword.kube.connection import HttpProtocolError, ResponseTruncated
from watchword.kube.dial import NotConnected, ProxyError
from watchword.kube.errors import KubeError, MalformedResponse, TimedOut, Unreachable, Untrusted

_EXPIRED, _NOT_YET_VALID = 10, 9
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})
_WRONG_NAME = frozenset({62, 64})
_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "ACCESS_DENIED",
)


def to_kube_error(cause: BaseException, server: str, *, with_certificate: bool) -> KubeError:
    """Return our error for a failed request; the message names the server and the reason."""
    if isinstance(cause, NotConnected):
        error = Untrusted if isinstance(cause.__cause__, ssl.SSLCertVerificationError) else Unreachable
        return error(f"{server} cannot be reached: {_unconnected(cause.__cause__)}", maybe_processed=False)
    if isinstance(cause, TimeoutError):
        return TimedOut(f"{server} did not answer in time")
    if isinstance(cause, ResponseTruncated):
        return Unreachable(f"{server} closed the connection in the middle of a response")
    alert = _alert(cause)
    if alert:
        return Unreachable(
            f"{server} rejected the client certificate ({alert}): it may be expired or of another authority",
            maybe_processed=False,
        )
    if isinstance(cause, HttpProtocolError):
        return MalformedResponse(f"{server} sent a response that is not valid HTTP")
    return Unreachable(_lost(server, with_certificate=with_certificate))


def _unconnected(cause: BaseException | None) -> str:
    for kind, sentence in _BEFORE_SENDING:
        if isinstance(cause, kind):
            return sentence(cause)
    return (getattr(cause, "strerror", None) or "the network failed").lower()


def _lost(server: str, *, with_certificate: bool) -> str:
    # Many servers drop a connection whose client certificate they reject without an alert.
    hint = (
        ": it may have rejected the client certificate (expired, or of another authority)" if with_certificate else ""
    )
    return f"{server} closed the connection without a response{hint}"


def _certificate(cause: BaseException) -> str:
    code = getattr(cause, "verify_code", 0)
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet: is a clock wrong?"
    if code in _UNKNOWN_AUTHORITY:
        return "its certificate is signed by an authority that is not trusted here: check certificate-authority"
    if code in _WRONG_NAME:
        return "its certificate is for another name: check the address or tls-server-name"
    return f"its certificate is not accepted ({getattr(cause, 'verify_message', '') or 'TLS failed'})"


def _handshake(cause: BaseException) -> str:
    reason = _reason(cause)
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}:
        return "it does not speak TLS on this port"
    if any(alert in reason for alert in _CERTIFICATE_ALERTS):
        return "it rejected the client certificate"
    return f"the TLS handshake failed ({reason.lower().replace('_', ' ') or 'no reason given'})"


def _alert(cause: BaseException) -> str:
    reason = _reason(cause)
    return reason.lower().replace("_", " ") if any(alert in reason for alert in _CERTIFICATE_ALERTS) else ""


def _reason(cause: BaseException | None) -> str:
    """Find the reason that OpenSSL gave, in any depth of the chained errors."""
    for _ in range(5):
        if cause is None:
            return ""
        reason = getattr(cause, "reason", None) if isinstance(cause, ssl.SSLError) else None
        if isinstance(reason, str):
            return reason
        cause = cause.__cause__ or cause.__context__
    return ""


_BEFORE_SENDING: tuple[tuple[type[BaseException], Callable[[BaseException], str]], ...] = (
    (ssl.SSLCertVerificationError, _certificate),
    (ssl.SSLError, _handshake),
    (ProxyError, str),
    (TimeoutError, lambda _: "connecting took too long"),
    (socket.gaierror, lambda _: "its name cannot be resolved"),
    (ConnectionRefusedError, lambda _: "the connection was refused: is the API server running at this address?"),
    (ConnectionError, lambda _: "the connection was closed during the handshake"),
)
