"""Opens connections to a server: its addresses in turn, through a proxy where configured, with TLS."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
import ssl
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from watchword.kube.connection import ClientConnection, ConnectionLost, HttpProtocolError
from watchword.kube.endpoint import Endpoint

CONNECT_SECONDS = 10.0
NEXT_ADDRESS_SECONDS = 4.0  # how long each address but the last may take to connect
_PORTS = {"http": 80, "https": 443}


class NotConnected(Exception):
    """There was no connection, so no request was sent; the reason is its `__cause__`."""


class ProxyError(Exception):
    """The proxy cannot be reached, or refuses to connect."""


class ConnectionDialer(Struct, frozen=True):
    """Opens connections to one endpoint."""

    endpoint: Endpoint

    async def dial(self, context: ssl.SSLContext | None) -> ClientConnection:
        """Return a connection; raises `NotConnected`."""
        target = urlsplit(self.endpoint.server)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self.endpoint.proxy:
                    return await self._through_proxy(target, context)
                return await connect(_host(target), _port(target), context, self.endpoint.server_name)
        except (OSError, TimeoutError, ValueError, ProxyError) as cause:
            raise NotConnected from cause

    async def _through_proxy(self, target: SplitResult, context: ssl.SSLContext | None) -> ClientConnection:
        proxy = urlsplit(self.endpoint.proxy)
        try:
            to_proxy = ssl.create_default_context() if proxy.scheme == "https" else None
            connection = await connect(_host(proxy), _port(proxy), to_proxy)
        except (OSError, ValueError) as cause:
            raise ProxyError("the proxy cannot be reached") from cause
        if context is None:
            return connection
        try:
            await _open_tunnel(connection, proxy, f"{_bracketed(_host(target))}:{_port(target)}")
            name = self.endpoint.server_name or _host(target)
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
    """Return the Proxy-Authorization header, when the proxy's URL has a user."""
    if not proxy.username:
        return []
    who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [f"Proxy-Authorization: Basic {base64.b64encode(who.encode()).decode()}"]


def _host(parts: SplitResult) -> str:
    return parts.hostname or ""


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
