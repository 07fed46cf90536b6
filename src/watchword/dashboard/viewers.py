"""The sessions of the dashboard, and what each may see: refreshed while it is open."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.expiring_map import ExpiringMap
from watchword.api.sensitive import Sensitive
from watchword.dashboard.sources import DASHBOARD_SOURCES, Source
from watchword.kube.access_reviews import UserIdentity, may, review_token, who_am_i
from watchword.kube.client import Client
from watchword.runtime.clock import Clock

SESSION_LIFETIME = timedelta(hours=12)
CODE_LIFETIME = timedelta(hours=12)
MOST_SESSIONS = 1000
SECRET_BYTES = 24  # their address fits a terminal of 80 columns


class Session(Struct):
    """One signed-in browser; without a token it has the rights of the dashboard's own kubeconfig."""

    who: UserIdentity
    ends: datetime
    token: Sensitive[str] | None = None
    review: Review | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # all pages of a browser share its reviews


class SessionStore(Struct):
    """Sessions by the hash of their cookie, and the one code that opens the next; `redeemed` is told of its use."""

    redeemed: Callable[[], None] = lambda: None
    _sessions: ExpiringMap[bytes, Session] = field(default_factory=lambda: ExpiringMap(MOST_SESSIONS))
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

    def open(self, session: Session) -> str:
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        self._sessions.put(_hash(cookie), session, now=0.0, seconds=math.inf)  # a clock that is set ends none for good
        return cookie

    def find(self, cookie: str, now: datetime) -> Session | None:
        """Return the session of a cookie, None when there is none or it has ended."""
        found = self._sessions.get(_hash(cookie), now=0.0)
        return found if found is not None and now < found.ends else None

    def close(self, cookie: str) -> None:
        self._sessions.forget(_hash(cookie).__eq__)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode()).digest()


REVIEWS_AT_ONCE = 16
NOT_ALLOWED = "you may not list them"
PARTLY = "you may see those of {count} only"


class Visibility(Struct, frozen=True):
    """The sources that one person sees, wholly or in part; None as parts means wholly."""

    parts: Mapping[Source, frozenset[str] | None] = field(default_factory=dict)
    everything: bool = False

    def parts_of(self, source: Source) -> frozenset[str] | None:
        """Return the parts of a source that may be seen, None for all of it."""
        return None if self.everything else self.parts.get(source, frozenset())

    def sees(self, source: Source, part: str = "") -> bool:
        """Whether what a source holds may be seen: in a namespace, of a cluster, or at all where it has no parts."""
        parts = self.parts_of(source)
        return parts is None or part in parts

    def extended(self, further: Visibility) -> Visibility | None:
        """Return these rights with those on further places; None when a whole kind was granted or withdrawn."""
        if any((further.parts_of(source) is None) != (parts is None) for source, parts in self.parts.items()):
            return None
        both = {
            source: None if parts is None else parts | (further.parts_of(source) or frozenset())
            for source, parts in self.parts.items()
        }
        return self if both == self.parts else Visibility(both)

    def explain(self, unseen: Mapping[str, str]) -> dict[str, str]:
        """Return what is left out and why, what the dashboard itself cannot read included."""
        if self.everything:
            return dict(unseen)
        found = dict(unseen)
        for source in DASHBOARD_SOURCES:
            parts = self.parts.get(source, frozenset())
            if parts is not None and source.name not in found:
                noun = "cluster" if len(parts) == 1 else "clusters"
                found[source.name] = PARTLY.format(count=f"{len(parts)} {noun}") if parts else NOT_ALLOWED
        return found


EVERYTHING = Visibility(everything=True)


async def review_visibility(client: Client, who: UserIdentity, places: Iterable[str]) -> Visibility:
    """Ask what a person may list; where a whole kind is refused, ask for each cluster and its namespace."""
    limit, known = asyncio.Semaphore(REVIEWS_AT_ONCE), sorted(set(places))

    async def ask(source: Source, part: str = "") -> bool:
        async with limit:
            return await may(client, who, source.access(part))

    async def parts(source: Source) -> frozenset[str] | None:
        if await ask(source):
            return None
        if not source.divisible:
            return frozenset()
        allowed = await asyncio.gather(*(ask(source, part) for part in known))
        return frozenset(part for part, seen in zip(known, allowed, strict=True) if seen)

    found = await asyncio.gather(*(parts(source) for source in DASHBOARD_SOURCES))
    return Visibility(dict(zip(DASHBOARD_SOURCES, found, strict=True)))


REVIEWED_EVERY = timedelta(seconds=60)
"""How long a withdrawn right or a revoked token may go unnoticed."""


class OwnRights(Struct):
    """Every session sees what this kubeconfig may read; a one-time address opens it."""

    client: Client
    clock: Clock
    sessions: SessionStore = field(default_factory=SessionStore)
    login: bool = False

    async def sign_in(self, proof: str) -> str | None:
        """Return the cookie of a new session for a one-time code, None when it is not the code."""
        now = self.clock.now()
        if not self.sessions.redeem(proof, now):
            return None
        return self.sessions.open(Session(await who_am_i(self.client), now + SESSION_LIFETIME))

    async def see(self, cookie: str) -> Visibility | None:
        """Return what a session may see, None when there is no such session."""
        return EVERYTHING if self.sessions.find(cookie, self.clock.now()) is not None else None


class Review(Struct, frozen=True):
    """What the API server has said of a session's token."""

    who: UserIdentity
    seen: Visibility
    places: frozenset[str]  # for which rights were asked
    at: datetime


class ReviewedRights(Struct):
    """A session sees what the API server allows its user: TokenReview at sign-in, then SubjectAccessReview."""

    client: Client
    clock: Clock
    places: Callable[[], frozenset[str]]  # clusters and namespaces for which rights are asked one by one
    sessions: SessionStore = field(default_factory=SessionStore)
    login: bool = True

    async def sign_in(self, proof: str) -> str | None:
        """Return the cookie of a new session for a bearer token, None when the server refuses the token."""
        token = Sensitive(proof)
        who = await review_token(self.client, token)
        now = self.clock.now()
        return None if who is None else self.sessions.open(Session(who, now + SESSION_LIFETIME, token))

    async def see(self, cookie: str) -> Visibility | None:
        """Return what a session may see, None when there is none or its token is refused by now."""
        session = self.sessions.find(cookie, self.clock.now())
        if session is None or session.token is None:
            return None
        async with session.lock:
            now, places, held = self.clock.now(), self.places(), session.review
            if held is not None and now - held.at < REVIEWED_EVERY:
                seen = await self._extend(session, held, places)
                if seen is not None:
                    return seen
            return await self._review(cookie, session, session.token, places)

    async def _extend(self, session: Session, held: Review, places: frozenset[str]) -> Visibility | None:
        """Ask only for places that are new; None when the answer is not that of the review."""
        added = places - held.places
        if not added:
            return held.seen
        seen = held.seen.extended(await review_visibility(self.client, held.who, added))
        if seen is not None:
            session.review = Review(held.who, seen, held.places | added, held.at)
        return seen

    async def _review(
        self, cookie: str, session: Session, token: Sensitive[str], places: frozenset[str]
    ) -> Visibility | None:
        now, held = self.clock.now(), session.review
        who = await review_token(self.client, token)
        if who is None or (who.username, who.uid) != (session.who.username, session.who.uid):
            self.sessions.close(cookie)
            session.review = None
            return None
        seen = await review_visibility(self.client, who, places)
        if held is not None and held.seen == seen:
            seen = held.seen
        session.review = Review(who, seen, places, now)
        return seen


Viewers = OwnRights | ReviewedRights
