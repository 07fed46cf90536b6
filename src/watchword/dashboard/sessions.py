"""Sessions of browsers: opened by a one-time address or by a bearer token, kept in memory alone."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.sensitive import Sensitive
from watchword.kube.access_reviews import UserIdentity

SESSION_LIFETIME = timedelta(hours=12)
CODE_LIFETIME = timedelta(hours=12)
MOST_SESSIONS = 1000
SECRET_BYTES = 24  # their address fits a terminal of 80 columns


class Session(Struct, frozen=True):
    """One signed-in browser; without a token it has the rights of the dashboard's own kubeconfig."""

    who: UserIdentity
    ends: datetime
    token: Sensitive[str] | None = None


class SessionStore(Struct):
    """Sessions by the hash of their cookie, and the one code that opens the next; `redeemed` is told of its use."""

    redeemed: Callable[[], None] = lambda: None
    _sessions: dict[bytes, Session] = field(default_factory=dict)
    _code: tuple[str, datetime] | None = None

    def code(self, now: datetime) -> str:
        """Return the code of the one-time address: the same until it is used or too old."""
        if self._code is None or now >= self._code[1]:
            self._code = secrets.token_urlsafe(SECRET_BYTES), now + CODE_LIFETIME
        return self._code[0]

    def redeem(self, code: str, now: datetime) -> bool:
        """Whether this is the code; it is used up by that."""
        if self._code is None or now >= self._code[1]:
            return False
        if not secrets.compare_digest(code.encode(), self._code[0].encode()):
            return False
        self._code = None
        self.redeemed()
        return True

    def open(self, session: Session, now: datetime) -> str:
        """Keep a session, and return the value of its cookie."""
        self._drop_ended(now)
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        self._sessions[_hash(cookie)] = session
        return cookie

    def find(self, cookie: str, now: datetime) -> Session | None:
        """Return the session of a cookie, None when there is none or it has ended."""
        found = self._sessions.get(_hash(cookie))
        return found if found is not None and now < found.ends else None

    def close(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(_hash(cookie), None)

    def _drop_ended(self, now: datetime) -> None:
        self._sessions = {key: each for key, each in self._sessions.items() if now < each.ends}
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()
