"""Addresses of API servers: `host:port` on the command line, https URLs in files."""

from urllib.parse import urlsplit

from watchword.api.validation import validate_server_address
from watchword.discovery.errors import DiscoveryReason, SourceRefused

DEFAULT_PORT = 6443


def parse_endpoint(text: str) -> str:
    """Return the https URL of `host:port`, `host` or an https URL; raise `SourceRefused` for others."""
    candidate = text if "://" in text else f"https://{_bracketed(text)}"
    complaint = validate_server_address(candidate)
    if complaint:
        raise SourceRefused(DiscoveryReason.SOURCE_REFUSED, f"the API server address {complaint}: give HOST:PORT")
    parts = urlsplit(candidate)
    port = parts.port or DEFAULT_PORT
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"https://{host}:{port}{parts.path.rstrip('/')}"


def _bracketed(text: str) -> str:
    return f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text
