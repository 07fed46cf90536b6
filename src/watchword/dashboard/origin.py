"""Decides whether a request was meant for this dashboard: against DNS rebinding and cross-site requests."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from watchword.api.http import Request

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class OwnAddress(Struct, frozen=True):
    """The names under which browsers reach the dashboard."""

    names: tuple[str, ...] = LOOPBACK_NAMES
    secure: bool = False  # https, by the dashboard itself or by a proxy before it

    @property
    def scheme(self) -> str:
        """The scheme that browsers see."""
        return "https" if self.secure else "http"

    def objection(self, request: Request) -> str:
        """Return why a request is refused, empty for one that was meant for us."""
        host = request.header("Host")
        if host_name(host) not in self.names:
            return f"open the dashboard under one of its names: {', '.join(self.names)}"
        origin = request.header("Origin")
        if origin and origin != f"{self.scheme}://{host}":
            return "requests from other sites are refused"
        if request.header("Sec-Fetch-Site") in ("cross-site", "same-site") and not _is_navigation(request):
            return "requests from other sites are refused"
        return ""


def host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets; empty when it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_navigation(request: Request) -> bool:
    """Whether a person follows a link: the page that opens cannot be read by the site that links."""
    return request.method == "GET" and request.header("Sec-Fetch-Mode") == "navigate"
