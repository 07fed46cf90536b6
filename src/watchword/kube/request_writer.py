"""Writes requests as the bytes that are sent over a connection."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from watchword.api.http import Request
from watchword.kube.credentials import Credential
from watchword.kube.dial import proxy_authorization
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import ConfigError

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_HEADERS_KNOWN = 16


class RequestWriter:
    """Writes requests to one endpoint; builds what they have in common once."""

    def __init__(self, endpoint: Endpoint) -> None:
        parts = urlsplit(endpoint.server)
        absolute = bool(endpoint.proxy) and not endpoint.encrypted  # a proxy without a tunnel needs the absolute URL
        self._prefix = endpoint.server if absolute else parts.path
        self._fixed = [f"Host: {parts.netloc}", "Accept-Encoding: identity"]
        self._fixed += proxy_authorization(urlsplit(endpoint.proxy)) if absolute else []
        self._known: dict[int, tuple[tuple[tuple[str, str], ...], Credential, bytes]] = {}

    def write(self, request: Request, credential: Credential) -> bytes:
        """Return the bytes to send; raises `ConfigError` for what is not HTTP."""
        query = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{self._prefix}{request.path}{query}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise _not_http()
        begin = f"{request.method} {target} HTTP/1.1\r\n".encode()
        length = b""
        if request.body or request.method in _WITH_BODY:
            length = b"Content-Length: %d\r\n" % len(request.body)
        return b"".join((begin, self._headers(request, credential), length, b"\r\n", request.body))

    def _headers(self, request: Request, credential: Credential) -> bytes:
        """Return the headers; clients repeat the same few sets, so each is built once."""
        known = self._known.get(id(request.headers))
        if known is not None and known[0] is request.headers and known[1] is credential:
            return known[2]
        lines = [*self._fixed, *(f"{name}: {value}" for name, value in (*request.headers, *credential.headers))]
        if credential.authorization is not None:
            lines.append(f"Authorization: {credential.authorization.reveal()}")
        if not all(map(str.isprintable, lines)):
            raise _not_http()
        made = "".join(f"{line}\r\n" for line in lines).encode()
        if len(self._known) >= _HEADERS_KNOWN:
            self._known.clear()
        self._known[id(request.headers)] = request.headers, credential, made
        return made


def _not_http() -> ConfigError:
    return ConfigError("the request cannot be sent: an address or header is not valid HTTP")
