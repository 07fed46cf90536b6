"""When a client has taken too long to send a request, or to read a response."""

from __future__ import annotations

from typing import Protocol

from watchword.http.limits import ServerLimits


class RequestProgress(Protocol):
    """How far a request has come."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is incomplete."""
        ...

    @property
    def is_head_complete(self) -> bool:
        """Whether the head of the request has been read."""
        ...


class ConnectionDeadlines:
    """The deadlines of one connection: head, body, idle time, and progress of what is written."""

    def __init__(self, limits: ServerLimits, now: float) -> None:
        self._limits = limits
        self._since = now
        self._is_first = True  # no request has come yet
        self._written: tuple[float, int] | None = None  # when the client was last seen reading, and what was left

    def restart(self, now: float, *, is_first: bool = False) -> None:
        """Count from now: a request begins, or the connection becomes idle."""
        self._since = now
        self._is_first = is_first

    def writable(self) -> None:
        """Take note that the client reads again."""
        self._written = None

    def is_read_overdue(self, now: float, request: RequestProgress) -> bool:
        """Whether the client took too long with what it is expected to send."""
        if request.is_idle and not self._is_first:
            patience = self._limits.keepalive_seconds
        elif not request.is_head_complete:
            patience = self._limits.header_seconds
        else:
            patience = self._limits.request_seconds
        return now - self._since > patience

    def is_write_overdue(self, now: float, left: int) -> bool:
        """Whether the client reads too slowly; asked again and again with the bytes that are still to be written."""
        if self._written is None:
            self._written = now, left
            return False
        since, then = self._written
        waited = now - since
        if waited <= self._limits.write_seconds:
            return False
        self._written = now, left
        return then - left < waited * self._limits.write_bytes_per_second
