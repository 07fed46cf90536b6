"""The server's half of aiohttp, which clients need not pay for."""

from __future__ import annotations

from aiohttp import web

__all__ = ["web"]
