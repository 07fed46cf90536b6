"""Addresses of API servers: `host:port` on the command line, https URLs in files."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from watchword.discovery.errors import DiscoveryReason, SourceRefused

DEFAULT_PORT = 6443
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:.]{2,45}", re.ASCII)
_PATH = re.compile(r"(/[A-Za-z0-9_~\-][A-Za-z0-9._~\-]*)*/?", re.ASCII)  # no segment begins with a dot


def validate_server_address(url: str) -> str:
    """Return in one sentence why a URL is no API server address; empty when it is one."""
    parts = _split(url)
    if parts is None:
        return "must be an https address with a host"
    if parts.scheme != "https":
        return "must begin with https://"
    if parts.username is not None or parts.password is not None:
        return "must not carry a user or password"
    if parts.query or parts.fragment or "?" in url or "#" in url or not _PATH.fullmatch(parts.path):
        return "must be a plain address, without query or fragment"
    if not parts.hostname or not _HOST.fullmatch(parts.hostname) or ".." in parts.hostname:
        return "must name a host"
    return ""


def parse_endpoint(text: str) -> str:
    """Return the https URL of `host:port`, `host` or an https URL; raise `SourceRefused` for others."""
    candidate = text if "://" in text else f"https://{_bracketed(text)}"
    complaint = validate_server_address(candidate)
    if complaint:
        raise SourceRefused(DiscoveryReason.SOURCE_REFUSED, f"the API server address {complaint}: give HOST:PORT")
    parts = _split(candidate)
    assert parts is not None, "judged above"
    port = parts.port or DEFAULT_PORT
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"https://{host}:{port}{parts.path.rstrip('/')}"


def _bracketed(text: str) -> str:
    return f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text


def _split(url: str) -> SplitResult | None:
    if not url.isascii() or any(character <= " " or character == "\\" for character in url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises when it is no port number
    except ValueError:
        return None
    return parts
