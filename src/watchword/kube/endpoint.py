"""The address of an API server, and the trust and proxy settings to reach it."""

import asyncio
import base64
import ipaddress
import socket
import ssl
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import force_setattr

from watchword.kube.connection import ClientConnection, ConnectionLost, HttpProtocolError
from watchword.kube.errors import ConfigError
from watchword.kube.files import RECHECK_SECONDS, WatchedFile
from watchword.kube.tls import ClientCertificate, ContextCache, Trust

FileOrBytes: TypeAlias = bytes | WatchedFile
"""Bytes, or the file that holds them and may change."""


def read(content: FileOrBytes) -> bytes:
    return content.read() if isinstance(content, WatchedFile) else content


class Endpoint(Struct, frozen=True):
    """An API server: its address without a trailing slash, its CAs, its proxy."""

    server: str
    ca: FileOrBytes = b""
    server_name: str = ""  # the name in its certificate, when it differs from the address
    insecure: bool = False
    proxy: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "server", normalize_server_url(self.server))
        if self.proxy:
            parts = _split(self.proxy, "proxy-url")
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ConfigError("proxy-url must be an http or https URL: other proxies are not supported")
        if self.insecure and self.ca:
            raise ConfigError("a certificate authority and insecure-skip-tls-verify exclude each other: remove one")

    @property
    def encrypted(self) -> bool:
        return self.server.startswith("https:")

    def trust(self) -> Trust:
        return Trust(read(self.ca), insecure=self.insecure)


class ReloadingTlsContext:
    """The current TLS context: follows CA files and credentials, and keeps the last good one when they break."""

    def __init__(self, endpoint: Endpoint, contexts: ContextCache) -> None:
        self._endpoint = endpoint
        self._contexts = contexts
        self._context: ssl.SSLContext | None = None
        self._trust: Trust | None = None
        self._used: tuple[Trust | None, ClientCertificate | None] = (None, None)  # what the context was built from
        self._checked_at = 0.0
        self.has_client_certificate = False

    def context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Return the context for this certificate; a half-finished rotation keeps the one in use."""
        trust = self._current_trust()
        # Identity first: on almost every request these are the same objects, and comparing contents costs more.
        if self._context is not None and trust is self._used[0] and certificate is self._used[1]:
            return self._context
        try:
            self._context = self._contexts.get(trust, certificate)
            self._used = (trust, certificate)
            self.has_client_certificate = certificate is not None
        except ConfigError:
            if self._context is None:
                raise
        return self._context

    def _current_trust(self) -> Trust:
        now = asyncio.get_running_loop().time()
        if self._trust is None or now - self._checked_at >= RECHECK_SECONDS:
            self._checked_at = now
            self._trust = self._endpoint.trust()
        return self._trust


def normalize_server_url(text: str) -> str:
    """Return a server address in its normal form, or raise `ConfigError`."""
    parts = _split(text, "server")
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ConfigError("the server address must be a URL such as https://host:6443")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError("the server address must hold nothing but scheme, host, port and path")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_loopback(server: str) -> bool:
    return is_loopback_host(_split(server, "server").hostname or "")


def is_loopback_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(text: str, what: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as cause:
        raise ConfigError(f"the {what} address is not a URL") from cause
    if any(ord(c) <= 0x20 or ord(c) == 0x7F for c in text):
        raise ConfigError(f"the {what} address holds blanks or control characters")
    return parts


CONNECT_SECONDS = 10.0
NEXT_ADDRESS_SECONDS = 4.0  # how long each address but the last may take to connect
_PORTS = {"http": 80, "https": 443}


class NotConnected(Exception):
    """There was no connection, so no request was sent; the reason is its `__cause__`."""


class ProxyError(Exception):
    """The proxy cannot be reached, or refuses to connect."""


async def dial(endpoint: Endpoint, context: ssl.SSLContext | None) -> ClientConnection:
    """Return a connection to an endpoint; raises `NotConnected`."""
    target = urlsplit(endpoint.server)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if endpoint.proxy:
                return await _dial_through_proxy(endpoint, target, context)
            return await connect(_host(target), _port(target), context, endpoint.server_name)
    except (OSError, TimeoutError, ValueError, ProxyError) as cause:
        raise NotConnected from cause


async def _dial_through_proxy(
    endpoint: Endpoint, target: SplitResult, context: ssl.SSLContext | None
) -> ClientConnection:
    proxy = urlsplit(endpoint.proxy)
    try:
        to_proxy = ssl.create_default_context() if proxy.scheme == "https" else None
        connection = await connect(_host(proxy), _port(proxy), to_proxy)
    except (OSError, ValueError) as cause:
        raise ProxyError("the proxy cannot be reached") from cause
    if context is None:
        return connection
    try:
        host = _host(target)
        await _open_tunnel(connection, proxy, f"{f'[{host}]' if ':' in host else host}:{_port(target)}")
        name = endpoint.server_name or host
        inner = ClientConnection()
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(connection.transport, inner, context, server_hostname=name)
        if transport is None:
            raise ProxyError("the proxy closed the connection")
    except BaseException:
        connection.abort()
        raise
    inner.connection_made(transport)
    return inner


async def connect(host: str, port: int, context: ssl.SSLContext | None, server_name: str = "") -> ClientConnection:
    """Connect to the first address of a host that accepts; raises `OSError`."""
    loop = asyncio.get_running_loop()
    name = (server_name or host) if context is not None else None
    addresses = await _addresses(host, port)
    for address in addresses:
        limit = None if address == addresses[-1] else NEXT_ADDRESS_SECONDS
        try:
            async with asyncio.timeout(limit):
                _, connection = await loop.create_connection(
                    ClientConnection, address, port, ssl=context, server_hostname=name
                )
                return connection
        except ssl.SSLError:
            raise
        except (OSError, TimeoutError):
            if limit is None:
                raise
    raise OSError(f"{host} has no address")


async def _addresses(host: str, port: int) -> list[str]:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(row[4][0]) for row in found))
    return [host]


async def _open_tunnel(connection: ClientConnection, proxy: SplitResult, authority: str) -> None:
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *proxy_authorization(proxy)]
    try:
        response = await connection.send_request("\r\n".join([*lines, "", ""]).encode("latin-1"))
    except (ConnectionLost, HttpProtocolError) as cause:
        raise ProxyError("the proxy closed the connection") from cause
    if response.status != 200:
        raise ProxyError(f"the proxy answered {response.status}")


def proxy_authorization(proxy: SplitResult) -> list[str]:
    if not proxy.username:
        return []
    who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [f"Proxy-Authorization: Basic {base64.b64encode(who.encode()).decode()}"]


def _host(parts: SplitResult) -> str:
    return parts.hostname or ""


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]
